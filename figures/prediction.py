"""Prediction: what is known before any search, as a sign of a better kept set."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import by_context, counts, differences, findings, of_text, readable, texts_note
from ceiling.analysis.instances import COLUMNS
from ceiling.analysis.predictors import MEANING, missing_note, predictor_table
from ceiling.analysis.thresholds import RANKED, RATES, roc_table, threshold_table
from ceiling.cli.figures import arguments
from ceiling.plots import prediction_curves, write

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_text.csv"
CAPTION = """**Prediction.** Above, left: the ROC curve of the dropped mass m for κ̂ > 1.11, all budgets
pooled; right: its AUC as the cut of κ̂ moves. Below: the AUC of m beside that of D (largest distance of a
value from the dense output), 2 D m and √(m/(1−m)) σ (the two bounds of top-mass's error), Φ (its
unnormalised length) and the spectral statistic (largest eigenvalue of the second moments of the dropped
residuals over their trace; our reading); below 1/2 the sign is the other way. `rho_…`: Spearman's
correlation with top-mass's error, the pool optimum's and κ̂, over rows. `intercept` and `slope` are of the
logistic fit of the label on m, in logits. The paper gives a range of AUCs of m over its families."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write prediction.{png,pdf,csv,md,json} from a store's instances."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    instances = of_text(store.instances, store.documents, args.text).select(COLUMNS).collect()
    sweep, roc = threshold_table(instances), roc_table(instances)
    texts = by_context(store.instances.select(COLUMNS), store.documents)
    parts = {text: predictor_table(frame) for text, frame in texts.items()}
    one, *more = by_context(instances, store.documents)
    ours = predictor_table(instances) if more else parts[one]
    data = pl.concat([part.select(pl.lit(text).alias("text"), pl.all()) for text, part in parts.items()])
    mass, fit = data.filter(predictor="dropped_mass"), ["auc", "intercept", "slope", "fit"]
    tables = {
        "The predictors": readable(ours, ["predictor", "auc", "rho_e_top", "rho_e_pool", "rho_kappa"]),
        "Dropped mass on every text": readable(mass, fit, ["text"]),
        "The cut of κ̂": sweep.select("model", "threshold", "n_labelled", "share", "^auc.*$", "^tau.*$"),
        "ROC of the dropped mass": roc.filter(pl.col("false_rate").is_in(RATES[::20].tolist())),
    }
    stated = pl.read_csv(REFERENCE, infer_schema=False).filter(quantity="auc").drop("s")
    differ = differences(ours.filter(predictor="dropped_mass"), stated)
    rests_on = counts(ours.filter(pl.col("s").is_null(), predictor="dropped_mass"))
    notes = (missing_note(ours), rests_on, texts_note(store.instances, store.documents, args.text))
    caption = f"{CAPTION} {RANKED}\n\n{differ}\n\n{' '.join(filter(None, notes))}"
    drawn, found = prediction_curves(roc, sweep, ours, MEANING), findings.prediction(ours, stated)
    for path in write(args.out, "prediction", drawn, data, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
