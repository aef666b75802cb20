"""Set-up for all tests: two CPU devices, as on a small machine, and repeatable examples."""

import jax
from hypothesis import HealthCheck, settings

# Before any backend starts: shards of a federation need more than one device to be tested.
jax.config.update("jax_num_cpu_devices", 2)

settings.register_profile(
    "tacit", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tacit")
