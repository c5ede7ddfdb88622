"""Optuna's tree-structured Parzen estimator over one family's genomes. Evaluates and stores nothing."""

from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import TrialState

from evoflash.strategies.optuna_study import INITIAL, OptunaStrategy


class Tpe(OptunaStrategy):
    """What is broken is told as pruned with the violated constraint: TPE ignores failed trials."""

    name = "tpe"

    def _sampler(self, seed: int) -> BaseSampler:
        """Multivariate TPE, and what is in flight counts as bad, so that a batch spreads (constant liar)."""
        return TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=INITIAL // 2)

    def _failure(self) -> tuple[TrialState, float | None]:
        return TrialState.PRUNED, None
