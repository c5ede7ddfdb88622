"""Optuna's tree-structured Parzen estimator over one family's genomes. Evaluates and stores nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evoflash.strategies import optuna_study

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import TrialState


class Tpe(optuna_study.OptunaStrategy):
    """What is broken is told as pruned with the violated constraint: TPE ignores failed trials."""

    name = "tpe"

    def _sampler(self, seed: int) -> BaseSampler:
        return optuna_study.tpe_sampler(seed)

    def _failure(self) -> tuple[TrialState, float | None]:
        return optuna_study.pruned_state(), None
