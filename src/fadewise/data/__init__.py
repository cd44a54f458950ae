"""Whose data is it: the data sets, and how their samples come into devices' hands. No torch here."""

from fadewise.data.arrays import Arrays as Arrays
from fadewise.data.base import Data as Data
from fadewise.data.base import Federation as Federation
from fadewise.data.base import Shard as Shard
from fadewise.data.cifar import CIFAR10 as CIFAR10
from fadewise.data.handwriting import Handwriting as Handwriting
from fadewise.data.leaf import LEAF as LEAF
from fadewise.data.parquet import Writers as Writers
from fadewise.data.partitions import IID as IID
from fadewise.data.partitions import PARTITIONS as PARTITIONS
from fadewise.data.partitions import ByOwner as ByOwner
from fadewise.data.partitions import Classes as Classes
from fadewise.data.partitions import Dirichlet as Dirichlet
from fadewise.data.partitions import OwnClasses as OwnClasses
from fadewise.data.partitions import Partition as Partition
from fadewise.registry import exported

DATASETS: dict[str, type[Data]] = exported(globals(), Data)
"""Every data set by its kind, the name it has in configurations; Arrays has none, being no TOML."""
