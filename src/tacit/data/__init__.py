"""Data: federations, splits of records into clients, and the sources of records."""

from tacit.data.config import from_config
from tacit.data.dataset import Dataset
from tacit.data.datasets.catalogue import CATALOGUE, SPLITS, describe, federate, generate, load
from tacit.data.datasets.entry import Entry
from tacit.data.datasets.files import Store
from tacit.data.datasets.generators import Problem
from tacit.data.federation import Federation, Records
from tacit.data.own_files.columns import Categorical, Classes, Duration, Numeric, Target
from tacit.data.own_files.federation_of_files import own_data, prepared_data
from tacit.data.own_files.preprocessing import Preprocessing
from tacit.data.own_files.tables import Table, read_table
from tacit.data.splits.holdout import hold_out, leave_out, leave_out_share, with_held_out

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
