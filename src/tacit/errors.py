"""The one exception for a user's mistake: its text is a sentence that says what to do."""


class TacitError(ValueError):
    """Bad input. The command line prints the sentence and exits with code 2."""


class BudgetError(TacitError):
    """A privacy budget that cannot be met, or that is used up."""


class LedgerError(TacitError):
    """A ledger that is damaged, locked by another writer, or of another form."""


class DataError(TacitError):
    """Records that cannot be used: missing files, NaN, wrong shapes, empty clients."""


class ConfigError(TacitError):
    """A configuration with an unknown key, a wrong type or an impossible value."""


class NoPrivacyWarning(UserWarning):
    """A training that protects nobody: no noise, or noise that no finite epsilon describes."""
