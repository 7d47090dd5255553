"""Plots: tables in, figures out; reads nothing, and only `write` touches the disk."""

from ceiling.plots.ceiling_bars import ceiling_bars as ceiling_bars
from ceiling.plots.cell_maps import cell_maps as cell_maps
from ceiling.plots.certified_bars import certified_bars as certified_bars
from ceiling.plots.files import write as write
from ceiling.plots.interval_panels import interval_panels as interval_panels
from ceiling.plots.looseness_dots import looseness_dots as looseness_dots
from ceiling.plots.native_lines import native_lines as native_lines
from ceiling.plots.panel_dots import content_bars as content_bars
from ceiling.plots.panel_dots import panel_dots as panel_dots
from ceiling.plots.prediction_curves import prediction_curves as prediction_curves
from ceiling.plots.profile_lines import profile_lines as profile_lines
from ceiling.plots.solving_times import time_lines as time_lines
from ceiling.plots.sweep_lines import sweep_lines as sweep_lines
