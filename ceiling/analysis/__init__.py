"""Analysis: instances in, tables out; polars and numpy only, nothing drawn, nothing printed."""

from ceiling.analysis.cells import cell_map as cell_map
from ceiling.analysis.cells import map_table as map_table
from ceiling.analysis.certification import certification_table as certification_table
from ceiling.analysis.closable import ceiling_table as ceiling_table
from ceiling.analysis.intervals import interval_table as interval_table
from ceiling.analysis.looseness import looseness as looseness
from ceiling.analysis.looseness import looseness_table as looseness_table
from ceiling.analysis.penalty import penalty_fit as penalty_fit
from ceiling.analysis.penalty import penalty_table as penalty_table
from ceiling.analysis.prediction import calibration_table as calibration_table
from ceiling.analysis.prediction import prediction_table as prediction_table
from ceiling.analysis.profile import budget_profile as budget_profile
from ceiling.analysis.summary import summary as summary
from ceiling.analysis.sweep import sweep_table as sweep_table
from ceiling.analysis.tables import beside as beside
from ceiling.analysis.tables import counts as counts
from ceiling.analysis.tables import readable as readable
from ceiling.analysis.zero_errors import answer_table as answer_table
from ceiling.analysis.zero_errors import solving_times as solving_times
