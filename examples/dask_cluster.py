"""Distribute a fit and a search over the workers of a Dask cluster.

Run it with ``python examples/dask_cluster.py``.
"""

import joblib
import numpy as np
from distributed import Client, LocalCluster
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from tabgnm import FleetSearchCV, GNMClassifier


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = GNMClassifier(n_candidates=2, n_folds=2, max_epochs=20, patience=None, random_state=0)

    # Fit on this machine first, for comparison.
    here = model.fit(X_train, y_train).predict_proba(X_test)
    print(f"here: accuracy {model.score(X_test, y_test):.3f}")

    # Two workers on this machine. For a cluster of your own: Client("tcp://scheduler:8786").
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        print(f"workers: {len(client.scheduler_info()['workers'])}")

        # The estimator does not change: joblib decides where its fleets are trained.
        with joblib.parallel_config("dask"):
            model.fit(X_train, y_train)
            # A search has more work to distribute than a single fit.
            search = FleetSearchCV(
                GNMClassifier(n_candidates=1, n_folds=1, max_epochs=15, patience=None, random_state=0),
                {"dropout": [0.1, 0.3], "learning_rate": [0.003, 0.001]},
                cv=2,
            ).fit(X_train, y_train)

    # The model is the same up to rounding, which training amplifies slightly.
    difference = np.abs(model.predict_proba(X_test) - here).max()
    print(f"on the cluster: accuracy {model.score(X_test, y_test):.3f}, largest difference {difference:.1e}")
    print(f"the search chose {search.best_params_} with accuracy {search.best_score_:.3f}")


# Workers are new processes that import this file, so the code that starts them must not run on import.
if __name__ == "__main__":
    main()
