"""The six data sets of table 2 of the paper (regression)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.datasets.formats import Columns, Delimited
from tabgnm.datasets.spec import Archive, Computed, DatasetSpec, Variant
from tabgnm.datasets.uci import CC_BY, uci_archive, uci_citation

WINE = (
    "fixed acidity", "volatile acidity", "citric acid", "residual sugar", "chlorides", "free sulfur dioxide",
    "total sulfur dioxide", "density", "pH", "sulphates", "alcohol", "quality",
)  # fmt: skip
AUTO_MPG = ("cylinders", "displacement", "horsepower", "weight", "acceleration", "model_year", "origin", "mpg")
BIKE = (
    "instant", "dteday", "season", "yr", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit", "temp",
    "atemp", "hum", "windspeed", "casual", "registered", "cnt",
)  # fmt: skip
DIABETES = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6", "progression")
CALIFORNIA = (
    "MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude", "MedHouseVal",
)  # fmt: skip
CALIFORNIA_RAW = (
    "longitude", "latitude", "housingMedianAge", "totalRooms", "totalBedrooms", "population", "households",
    "medianIncome", "medianHouseValue",
)  # fmt: skip
YEAR = (
    *(f"timbre_avg_{number}" for number in range(1, 13)),
    *(f"timbre_cov_{number}" for number in range(1, 79)),
    "year",
)


def _diabetes(variant: Variant) -> tuple[NDArray[np.float64], NDArray[Any]]:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=variant == "paper")
    return X, y


def _california(raw: Columns) -> Columns:
    """Compute averages per household, and values in units of 100,000 dollars, as in scikit-learn."""
    households = np.where(raw["households"] > 0, raw["households"], np.nan)  # a damaged file may have none
    return {
        "MedInc": raw["medianIncome"],
        "HouseAge": raw["housingMedianAge"],
        "AveRooms": raw["totalRooms"] / households,
        "AveBedrms": raw["totalBedrooms"] / households,
        "Population": raw["population"],
        "AveOccup": raw["population"] / households,
        "Latitude": raw["latitude"],
        "Longitude": raw["longitude"],
        "MedHouseVal": raw["medianHouseValue"] / 100_000,
    }


REGRESSION_SETS = (
    DatasetSpec(
        name="wine",
        title="Wine Quality (white)",
        task="regression",
        target="quality",
        columns=WINE,
        n_samples=4898,
        description="Chemical analyses of white vinho verde; how did tasters rate its quality, from 0 to 10?",
        license=CC_BY,
        citation=uci_citation(
            "Cortez, P., Cerdeira, A., Almeida, F., Matos, T. & Reis, J.", 2009, "Wine Quality", "C56S3T"
        ),
        uci_id=186,
        source=uci_archive(186, "wine+quality", ("winequality-white.csv",), Delimited(separator=";")),
        content_sha256="fb3905fb115fb2bf4f35255956274b5f56b46e1b908e200de2087efb9cc58271",
    ),
    DatasetSpec(
        name="auto_mpg",
        title="Auto MPG",
        task="regression",
        target="mpg",
        columns=AUTO_MPG,
        categorical=("origin",),
        n_samples=398,
        n_missing=6,
        description="Cars from 1970 to 1982; how many miles does the car travel per gallon?",
        license=CC_BY,
        citation=uci_citation("Quinlan, R.", 1993, "Auto MPG", "C5859H"),
        uci_id=9,
        source=uci_archive(
            9, "auto+mpg", ("auto-mpg.data",), Delimited((AUTO_MPG[-1], *AUTO_MPG[:-1], "car name"), separator=None)
        ),
        notes="Six values of horsepower are missing. Names of cars are left out. Origin: 1 USA, 2 Europe, 3 Japan.",
        content_sha256="0441d8e0d7240b1180e05d05de6b4c2afea7572d4cdb4123722db53f80d8fbdd",
    ),
    DatasetSpec(
        name="bike_sharing",
        title="Bike Sharing (hourly)",
        task="regression",
        target="cnt",
        columns=BIKE,
        categorical=("dteday", "season", "weathersit"),
        identifiers=("instant",),
        leaking=("casual", "registered"),
        n_samples=17379,
        description="The hours of two years in Washington, with the weather; how many bicycles were rented?",
        license=CC_BY,
        citation=uci_citation("Fanaee-T, H.", 2013, "Bike Sharing", "C5W894"),
        uci_id=275,
        source=uci_archive(275, "bike+sharing+dataset", ("hour.csv",), Delimited()),
        notes=(
            "The target is the sum of 'casual' and 'registered'; the paper's R2 of 0.999 is not reachable without "
            "them. The paper states 17,389 rows; the file has 17,379. 'dteday' is a date: a category of 731 levels."
        ),
        content_sha256="a01b642a7ace51e9a41cf7f0f12b1798927c75b770bef4f5cfc133bd48a2b73e",
    ),
    DatasetSpec(
        name="diabetes",
        title="Diabetes",
        task="regression",
        target="progression",
        columns=DIABETES,
        n_samples=442,
        description="Ten measurements of patients; how far had their diabetes progressed a year later?",
        license="Not stated; comes with scikit-learn",
        citation="Efron, B., Hastie, T., Johnstone, I. & Tibshirani, R. (2004). Least Angle Regression. "
        "Annals of Statistics 32(2), 407-499.",
        source=Computed("scikit-learn", _diabetes),
        notes=(
            "The clean variant has the measured values. The paper's variant has those that scikit-learn returns by "
            "default, which are scaled over all rows, including test rows."
        ),
    ),
    DatasetSpec(
        name="california",
        title="California Housing",
        task="regression",
        target="MedHouseVal",
        columns=CALIFORNIA,
        n_samples=20640,
        description=(
            "Districts of California in the census of 1990; what is the median value of a house, in 100,000 dollars?"
        ),
        license="Not stated (public StatLib data; 1990 US census)",
        citation="Pace, R. K. & Barry, R. (1997). Sparse Spatial Autoregressions. "
        "Statistics & Probability Letters 33(3), 291-297.",
        source=Archive(
            url="https://ndownloader.figshare.com/files/5976036",
            file="cal_housing.tgz",
            members=("cal_housing.data",),
            format=Delimited(CALIFORNIA_RAW),
            # The checksum that scikit-learn uses for this file.
            sha256="aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681",
            raw=tuple((name, "number") for name in CALIFORNIA_RAW),
            derive=_california,
        ),
        notes="The same file and the same eight features as in scikit-learn's fetch_california_housing.",
        content_sha256="6207ccb8d9aa6a95df4e15cded8a623e54541c3ebfc0b9961c0e6fed66e7c30f",
    ),
    DatasetSpec(
        name="year",
        title="YearPredictionMSD",
        task="regression",
        target="year",
        columns=YEAR,
        n_samples=515_345,
        may_be_sampled=True,
        description="Means and covariances of the timbre of songs; in which year was the song released?",
        license=CC_BY,
        citation=uci_citation("Bertin-Mahieux, T.", 2011, "YearPredictionMSD", "C50K61"),
        uci_id=203,
        source=uci_archive(203, "yearpredictionmsd", ("YearPredictionMSD.txt",), Delimited((YEAR[-1], *YEAR[:-1]))),
        notes="The first 463,715 rows are the customary training part; no artist is in both parts. The file is 210 MB.",
    ),
)
