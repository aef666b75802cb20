"""Data: federations, the ways to cut records into clients, and where records come from."""

from tacit.data.catalogue import CATALOGUE, SPLITS, describe, federate, generate, load
from tacit.data.columns import Categorical, Classes, Duration, Numeric
from tacit.data.config import from_config
from tacit.data.dataset import Dataset
from tacit.data.entry import Entry
from tacit.data.federation import Federation, Records
from tacit.data.files import Store
from tacit.data.generators import Problem
from tacit.data.holdout import hold_out, leave_out, leave_out_share, with_held_out
from tacit.data.own import own_data, prepared_data
from tacit.data.preprocessing import Preprocessing, Target
from tacit.data.tables import Table, read_table

__all__ = [
    "CATALOGUE",
    "SPLITS",
    "Categorical",
    "Classes",
    "Dataset",
    "Duration",
    "Entry",
    "Federation",
    "Numeric",
    "Preprocessing",
    "Problem",
    "Records",
    "Store",
    "Table",
    "Target",
    "describe",
    "federate",
    "from_config",
    "generate",
    "hold_out",
    "leave_out",
    "leave_out_share",
    "load",
    "own_data",
    "prepared_data",
    "read_table",
    "with_held_out",
]
