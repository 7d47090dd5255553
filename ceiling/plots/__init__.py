"""Plots: tables in, figures out; reads nothing, and only `write` touches the disk."""

from ceiling.plots.ceiling_bars import ceiling_bars as ceiling_bars
from ceiling.plots.cell_maps import cell_maps as cell_maps
from ceiling.plots.files import write as write
from ceiling.plots.profile_lines import profile_lines as profile_lines
from ceiling.plots.sweep_lines import sweep_lines as sweep_lines
