"""Rules from public numbers: how noise is spread over rounds, how many rounds, how long a step."""
