"""SCIP as a peer: is there a kept set whose forced error lies below a threshold?

A library for the benchmarks; nothing here comes from the package. The question is a mixed-integer
second-order cone program over binary ``x``: ``sum x = s``, ``|sum z_j x_j| <= tau sum p_j x_j`` and, with a
mass floor, ``sum p_j x_j >= rho p(A*)``. Its two forms ask the same with different numbers:

* `DIRECT`: as written, with SCIP's own settings. The cone is homogeneous and holds within an absolute
  tolerance, so every set of negligible mass passes for an answer.
* `FAIR`: divided by the mass of the top-mass set and by ``tau``, so that ``p`` and ``y`` run over at most 1;
  keys that no set above the floor can hold are left out; tolerances follow the floor; no primal heuristics,
  as the thresholds asked are to be refuted: they take ten times what the proof takes.

Whatever SCIP returns, the error that counts is recomputed from the set.
"""

import time
from typing import NamedTuple

import numpy as np
from pyscipopt import SCIP_PARAMSETTING, Model, quicksum

FEASIBILITY = 1e-6
"""SCIP's own tolerance, absolute on every constraint. `FAIR` takes it relative to the least mass allowed."""
LEAST_FLOOR = 1e-3
"""In units of the mass of the top-mass set: what `FAIR` asks of a set where no floor is given. An easier
question than the one that was put, a gift to SCIP: without any floor it answers with sets of mass 1e-10."""
ROUNDING = 1e-12
"""Relative: sums of masses are known to no less."""
MEMORY = 4096.0
"""MB a solve may take; a memory limit that is hit leaves the question unsolved."""

CERTIFIED, IMPROVED, FALSE, UNSOLVED = "certified", "improved", "false", "unsolved"
"""How a question ended: SCIP says there is no such set; a set that is what was asked; a set that is not (its
error is not below the threshold, its mass below the floor or its size wrong); stopped by a limit."""


class Form(NamedTuple):
    """How the question is put."""

    scaled: bool
    heuristics: bool


DIRECT = Form(scaled=False, heuristics=True)
FAIR = Form(scaled=True, heuristics=False)


class Outcome(NamedTuple):
    """What came of a question; `seconds` are CPU seconds of the solve, without building the model."""

    status: str
    seconds: float
    nodes: int
    error: float | None  # of the set returned, recomputed, in the units of the values
    mass: float | None  # of the set returned
    ended: str  # SCIP's own word


def refute(
    residuals: np.ndarray,
    masses: np.ndarray,
    s: int,
    tau: float,
    floor: float | None,
    seconds: float,
    form: Form,
) -> Outcome:
    """Ask SCIP for a set of `s` keys with ``|sum z_j| < tau p(A)`` and ``p(A) >= floor p(A*)``.

    Parameters
    ----------
    residuals : ndarray of float64, shape (n, d)
        ``z_j = p_j (v_j - mu)``.
    masses : ndarray of float64, shape (n,)
    s : int
        Less than n.
    tau : float
        In the units of the values.
    floor : float or None
        ``rho``, a share of the mass of the top-mass set.
    seconds : float
        CPU seconds of one core, presolving included.
    form : Form
    """
    top = float(np.sort(masses)[-s:].sum())
    least = floor if floor is not None else (LEAST_FLOOR if form.scaled else 0.0)
    keys = np.flatnonzero(useful(masses, s, least * top)) if form.scaled else np.arange(len(masses))
    unit = top if form.scaled else 1.0
    reach = tau if form.scaled else 1.0  # the cone reads |y| <= (tau / reach) t
    model, x = cone(residuals[keys] / (unit * reach), masses[keys] / unit, s, tau / reach, least * top / unit)
    if form.scaled:
        model.setParam("numerics/feastol", FEASIBILITY * least)
    if not form.heuristics:
        model.setHeuristics(SCIP_PARAMSETTING.OFF)
    model.setParam("limits/time", seconds)
    start = time.process_time()
    model.optimize()
    spent = time.process_time() - start
    ended, nodes = model.getStatus(), model.getNNodes()
    if model.getNSols() == 0:
        status = CERTIFIED if ended == "infeasible" else UNSOLVED
        return Outcome(status, spent, nodes, None, None, ended)
    kept = keys[[model.getVal(variable) > 0.5 for variable in x]]
    g, mass = residuals[kept].sum(axis=0), float(masses[kept].sum())
    error = float(np.sqrt(g @ g)) / mass
    heavy = floor is None or mass >= floor * top * (1 - ROUNDING)
    is_what_was_asked = len(kept) == s and error < tau and heavy
    return Outcome(IMPROVED if is_what_was_asked else FALSE, spent, nodes, error, mass, ended)


def cone(residuals: np.ndarray, masses: np.ndarray, s: int, tau: float, least: float) -> tuple[Model, list]:
    """The program with ``y = sum z_j x_j`` and ``t = sum p_j x_j`` as variables, and its binaries."""
    model = Model()
    model.hideOutput()
    model.setParam("timing/clocktype", 1)  # CPU seconds: the machine may be shared
    model.setParam("limits/memory", MEMORY)
    model.setParam("limits/solutions", 1)
    x = [model.addVar(vtype="B") for _ in masses]
    t = model.addVar(lb=least, ub=1.0)
    y = [model.addVar(lb=None) for _ in residuals[0]]
    model.addCons(quicksum(x) == s)
    model.addCons(quicksum(p * v for p, v in zip(masses.tolist(), x, strict=True)) - t == 0)
    for component, column in zip(y, residuals.T.tolist(), strict=True):
        model.addCons(quicksum(z * v for z, v in zip(column, x, strict=True)) - component == 0)
    model.addCons(quicksum(component * component for component in y) ** 0.5 - tau * t <= 0)
    return model, x


def useful(masses: np.ndarray, s: int, least: float) -> np.ndarray:
    """Which keys some set of `s` keys of mass `least` holds, bool [n]."""
    others = np.sort(masses)[len(masses) - s + 1 :].sum()
    return masses + others >= least * (1 - FEASIBILITY)
