"""A plain solver that writes refutations, for tests of who checks them: one recursion, any directions.

It writes a stream for every claim, also a false one: then some LAST is not true.
"""

import math
from typing import Any

import numpy as np

FIX, SHUT, BRANCH, LAST, NONE = 1, 2, 3, 4, 5

GRID = 32767
MARGIN = 1e-12
"""Relative to all that enters a bound: what a float64 sum may lose."""


class Prover:
    """Writes the events of ``no set of s keys, of rho times the top mass, has an error below tau``."""

    def __init__(
        self,
        masses: Any,
        values: Any,
        s: int,
        tau: float,
        rho: float = 0.0,
        *,
        seed: int = 0,
        rounds: int = 6,  # directions at a node
        useless: bool = False,  # also write directions that fix nothing
    ) -> None:
        p, v = np.array(masses, dtype=float), np.array(values, dtype=float)
        v, p = v[p > 0], p[p > 0]
        self.order = np.argsort(-p, kind="stable")
        self.p = p / math.fsum(p)
        self.z = self.p[:, None] * (v - self.p @ v)
        self.norms = np.linalg.norm(self.z, axis=1)
        self.s, self.tau, self.rho = s, tau, rho
        self.least = rho * np.sort(self.p)[-s:].sum()
        self.rng, self.rounds, self.useless = np.random.default_rng(seed), rounds, useless
        self.events: list[list[int]] = []

    def stream(self) -> np.ndarray:
        n = len(self.p)
        if self.rho:
            self.node([], list(range(n)), self.s)
        else:
            for a in range(n - self.s + 1):
                self.node([self.order[a]], list(self.order[a + 1 :]), self.s - 1)
        return np.array([word for event in self.events for word in event], dtype=np.int16)

    def node(self, kept: list, alive: list, k: int) -> None:
        """One node: directions, then two children, the one that keeps the key first."""
        aim = self.z[kept].sum(axis=0)
        for turn in range(self.rounds):
            if len(alive) < k or (self.rho and self.too_light(kept, alive, k)):
                self.events.append([NONE])
                return
            if k <= 1:
                self.events.append([LAST])
                return
            grid = self.grid(aim)
            lam, parts = self.multiplier()
            unit = grid / np.linalg.norm(grid)
            r = (self.tau + lam) * self.p - self.z @ unit
            best = sorted(alive, key=lambda j: -r[j])[: k + 1]
            taken = kept + best[:k]
            d = lam * self.least - r[taken].sum()
            margin = MARGIN * (
                self.norms[taken].sum() + (self.tau + lam) * self.p[taken].sum() + lam * self.least
            )
            if d >= margin:
                self.events.append([SHUT, *grid, *parts])
                return
            last, after = r[best[k - 1]], r[best[k]] if len(best) > k else -math.inf
            forced = [j for j in best[:k] if d + r[j] - after >= margin]
            stay = [j for j in alive if d + last - r[j] < margin and j not in forced]
            if self.useless or len(stay) < len(alive):
                self.events.append([FIX, *grid, *parts])
            kept, alive, k = kept + forced, stay, k - len(forced)
            ahead = self.z[taken].sum(axis=0)
            aim = aim + (ahead - aim) / (turn + 2) if turn % 3 < 2 else self.rng.standard_normal(len(aim))
        if len(alive) < k:
            self.events.append([NONE])
        elif k <= 1:
            self.events.append([LAST])
        else:
            j = alive[self.rng.integers(len(alive))]
            rest = [i for i in alive if i != j]
            self.events.append([BRANCH, j % 32768, j // 32768])
            self.node([*kept, j], list(rest), k - 1)
            self.node(kept, rest, k)

    def too_light(self, kept: list, alive: list, k: int) -> bool:
        """Drop what the floor forbids; whether no set is left."""
        heaviest = np.sort(self.p[alive])[len(alive) - k :]
        total, floor = self.p[kept].sum() + heaviest.sum(), self.least * (1 - MARGIN)
        if k:
            alive[:] = [j for j in alive if total - heaviest[0] + self.p[j] >= floor]
        return bool(total < floor)

    def grid(self, aim: np.ndarray) -> np.ndarray:
        largest = np.abs(aim).max()
        if largest == 0:
            aim, largest = np.ones(len(aim)), 1.0
        return np.rint(aim / largest * GRID).astype(int)

    def multiplier(self) -> tuple[float, tuple[int, int]]:
        """Some multiplier, where there is a floor: any is valid."""
        if not self.rho or self.rng.random() < 0.3:
            return 0.0, (0, 0)
        fraction, exponent = math.frexp(self.tau * self.rng.exponential(2.0) + 1e-300)
        mantissa = int(fraction * 32768)
        return math.ldexp(mantissa, exponent - 15), (mantissa, exponent - 15)
