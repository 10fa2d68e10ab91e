"""The 15 data sets of table 1 of the paper (classification), and the XOR problem of section 6.5."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tabgnm.datasets.formats import Arff, Columns, Delimited
from tabgnm.datasets.generated import make_noisy_moons, make_xor, xor_bayes_accuracy
from tabgnm.datasets.spec import Computed, DatasetSpec
from tabgnm.datasets.uci import CC_BY, uci_archive, uci_citation

ABALONE = (
    "Sex", "Length", "Diameter", "Height", "Whole_weight", "Shucked_weight", "Viscera_weight", "Shell_weight", "Rings",
)  # fmt: skip
ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
ADULT_CATEGORIES = (
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
)  # fmt: skip
CAR = ("buying", "maint", "doors", "persons", "lug_boot", "safety", "class")
CONNECT4_SQUARES = tuple(f"{column}{row}" for column in "abcdefg" for row in range(1, 7))
PHISHING = (
    "having_IP_Address", "URL_Length", "Shortining_Service", "having_At_Symbol", "double_slash_redirecting",
    "Prefix_Suffix", "having_Sub_Domain", "SSLfinal_State", "Domain_registeration_length", "Favicon", "port",
    "HTTPS_token", "Request_URL", "URL_of_Anchor", "Links_in_tags", "SFH", "Submitting_to_email", "Abnormal_URL",
    "Redirect", "on_mouseover", "RightClick", "popUpWidnow", "Iframe", "age_of_domain", "DNSRecord", "web_traffic",
    "Page_Rank", "Google_Index", "Links_pointing_to_page", "Statistical_report", "Result",
)  # fmt: skip
WIRELESS = (*(f"WS{number}" for number in range(1, 8)), "room")
YEAST = ("mcg", "gvh", "alm", "mit", "erl", "pox", "vac", "nuc", "class")
PAGE_BLOCKS = (
    "height", "lenght", "area", "eccen", "p_black", "p_and", "mean_tr", "blackpix", "blackand", "wb_trans", "class",
)  # fmt: skip
DRY_BEAN = (
    "Area", "Perimeter", "MajorAxisLength", "MinorAxisLength", "AspectRation", "Eccentricity", "ConvexArea",
    "EquivDiameter", "Extent", "Solidity", "roundness", "Compactness", "ShapeFactor1", "ShapeFactor2", "ShapeFactor3",
    "ShapeFactor4", "Class",
)  # fmt: skip
LETTER = (
    "x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar", "y2bar", "xybar", "x2ybr", "xy2br", "x-ege",
    "xegvy", "y-ege", "yegvx", "lettr",
)  # fmt: skip
GRID = (
    "tau1", "tau2", "tau3", "tau4", "p1", "p2", "p3", "p4", "g1", "g2", "g3", "g4", "stab", "stabf",
)  # fmt: skip
SUSY = (
    "lepton 1 pT", "lepton 1 eta", "lepton 1 phi", "lepton 2 pT", "lepton 2 eta", "lepton 2 phi",
    "missing energy magnitude", "missing energy phi", "MET_rel", "axial MET", "M_R", "M_TR_2", "R", "MT2", "S_R",
    "M_Delta_R", "dPhi_r_b", "cos(theta_r1)", "class",
)  # fmt: skip
ISOLET = (*(f"f{number}" for number in range(1, 618)), "class")
WAVEFORM = (*(f"x{number}" for number in range(1, 41)), "class")


def _target_first(columns: tuple[str, ...]) -> Delimited:
    """Return a comma-separated format with the target in the first column; in the cache it is the last."""
    return Delimited((columns[-1], *columns[:-1]))


def _without_full_stops(columns: Columns) -> Columns:
    """Remove the full stops at the end of the labels in adult.test; those in adult.data have none."""
    labels = [label.rstrip(".") if isinstance(label, str) else label for label in columns["income"]]
    return {**columns, "income": np.array(labels, dtype=object)}


CLASSIFICATION_SETS = (
    DatasetSpec(
        name="noisy_moons",
        title="Noisy Moons",
        task="classification",
        target="moon",
        columns=("x1", "x2", "moon"),
        n_samples=1000,
        n_classes=2,
        integer_labels=True,
        description="Two interleaved half circles in the plane, with Gaussian noise of standard deviation 0.1.",
        license="none needed: generated",
        citation="Pedregosa, F. et al. (2011). Scikit-learn: Machine Learning in Python. JMLR 12, 2825-2830.",
        source=Computed("generated", lambda variant: make_noisy_moons()),
        notes="Drawn with seed 0. The noise is that of the authors' code; the paper does not state it.",
    ),
    DatasetSpec(
        name="abalone",
        title="Abalone",
        task="classification",
        target="Rings",
        columns=ABALONE,
        categorical=("Sex",),
        n_samples=4177,
        n_classes=28,
        integer_labels=True,
        description="Measurements of shellfish; the number of rings, which indicates the age, is the class.",
        license=CC_BY,
        citation=uci_citation("Nash, W., Sellers, T., Talbot, S., Cawthorn, A. & Ford, W.", 1994, "Abalone", "C55C7W"),
        uci_id=1,
        source=uci_archive(1, "abalone", ("abalone.data",), Delimited(ABALONE)),
        notes="The classes are 1 to 29 without 28. Some have a single row, so no split has all classes in every part.",
        content_sha256="fea2e055dd639996c3ecd44c9c21f65e05c6b7ce4396e803aa5fb021ef0a8096",
    ),
    DatasetSpec(
        name="adult",
        title="Adult (Census Income)",
        task="classification",
        target="income",
        columns=ADULT,
        categorical=ADULT_CATEGORIES,
        n_samples=48842,
        n_classes=2,
        n_missing=6465,
        description="People in the US census of 1994; does the person earn more than 50,000 dollars a year?",
        license=CC_BY,
        citation=uci_citation("Becker, B. & Kohavi, R.", 1996, "Adult", "C5XW20"),
        uci_id=2,
        source=replace(
            uci_archive(2, "adult", ("adult.data", "adult.test"), Delimited(ADULT, comment="|")),
            derive=_without_full_stops,
        ),
        notes="The first 32,561 rows are the customary training part, the other 16,281 the test part.",
        content_sha256="95daf1ec17c0f8979dd05d09fa275fc90ff25bf11e92cc2665ccabe5a441fe26",
    ),
    DatasetSpec(
        name="car",
        title="Car Evaluation",
        task="classification",
        target="class",
        columns=CAR,
        categorical=CAR[:-1],
        n_samples=1728,
        n_classes=4,
        description="All combinations of six properties of a car; how acceptable is it, according to a decision model?",
        license=CC_BY,
        citation=uci_citation("Bohanec, M.", 1988, "Car Evaluation", "C5JP48"),
        uci_id=19,
        source=uci_archive(19, "car+evaluation", ("car.data",), Delimited(CAR)),
        content_sha256="1231d3ff50c7abad1d9ebdf8337a9bcdd9c0a5cc5dc9c43819a716b82cb949ed",
    ),
    DatasetSpec(
        name="connect4",
        title="Connect-4",
        task="classification",
        target="class",
        columns=(*CONNECT4_SQUARES, "class"),
        categorical=CONNECT4_SQUARES,
        n_samples=67557,
        n_classes=3,
        description=(
            "All positions of the game after eight moves that nobody has won and in which the next move is not forced; "
            "what is the outcome for the first player with best play?"
        ),
        license=CC_BY,
        citation=uci_citation("Tromp, J.", 1995, "Connect-4", "C59P43"),
        uci_id=26,
        source=uci_archive(26, "connect+4", ("connect-4.data",), Delimited((*CONNECT4_SQUARES, "class"))),
        content_sha256="9a9b5ebb875d0c78372be9a2aac46fdda115bc0fb4970f1caf0347cea50a10e3",
    ),
    DatasetSpec(
        name="phishing",
        title="Phishing Websites",
        task="classification",
        target="Result",
        columns=PHISHING,
        n_samples=11055,
        n_classes=2,
        integer_labels=True,
        description=(
            "Properties of websites, each rated phishing (-1), suspicious (0) or legitimate (1); is the site phishing?"
        ),
        license=CC_BY,
        citation=uci_citation("Mohammad, R. & McCluskey, L.", 2012, "Phishing Websites", "C51W2X"),
        uci_id=327,
        source=uci_archive(327, "phishing+websites", ("Training Dataset.arff",), Arff()),
        notes="The features are ordered codes and are treated as numbers.",
        content_sha256="cb713e7be1298a36c46e9340428007f6a0d2597187401d8ad5165c76a10e7d7d",
    ),
    DatasetSpec(
        name="wireless",
        title="Wireless Indoor Localization",
        task="classification",
        target="room",
        columns=WIRELESS,
        n_samples=2000,
        n_classes=4,
        integer_labels=True,
        description="The strengths of seven wireless signals at a telephone; in which of four rooms is it?",
        license=CC_BY,
        citation=uci_citation("Bhatt, R.", 2017, "Wireless Indoor Localization", "C51880"),
        uci_id=422,
        source=uci_archive(
            422, "wireless+indoor+localization", ("wifi_localization.txt",), Delimited(WIRELESS, separator=None)
        ),
        content_sha256="7d4e304bde089d808b3e1f62204f3ed3eb98027dc1a46495711d8923a3b5c0bb",
    ),
    DatasetSpec(
        name="yeast",
        title="Yeast",
        task="classification",
        target="class",
        columns=YEAST,
        n_samples=1484,
        n_classes=10,
        description="Features of the sequence of a protein; in which part of the cell is it found?",
        license=CC_BY,
        citation=uci_citation("Nakai, K.", 1991, "Yeast", "C5KG68"),
        uci_id=110,
        source=uci_archive(110, "yeast", ("yeast.data",), Delimited(("sequence name", *YEAST), separator=None)),
        notes="The name of the sequence is left out.",
        content_sha256="394d0bb32e10ef8dfd19a27d7e2a39dcaf21f1e64ac694e84eeb06fc241c4e8b",
    ),
    DatasetSpec(
        name="page_blocks",
        title="Page Blocks Classification",
        task="classification",
        target="class",
        columns=PAGE_BLOCKS,
        n_samples=5473,
        n_classes=5,
        integer_labels=True,
        description="Blocks of the layout of a printed page; is the block text, a line, a picture or a graphic?",
        license=CC_BY,
        citation=uci_citation("Malerba, D.", 1994, "Page Blocks Classification", "C5J590"),
        uci_id=78,
        source=uci_archive(
            78, "page+blocks+classification", ("page-blocks.data",), Delimited(PAGE_BLOCKS, separator=None)
        ),
        notes="'lenght' is spelled as in the original.",
        content_sha256="4c4cc63d46fe6ac31de34bb38fdb0d4a7fb9c161ae71777b7a57fa245d3a3274",
    ),
    DatasetSpec(
        name="dry_bean",
        title="Dry Bean",
        task="classification",
        target="Class",
        columns=DRY_BEAN,
        n_samples=13611,
        n_classes=7,
        description="The shapes of beans in images; which of seven varieties is it?",
        license=CC_BY,
        citation=uci_citation("Koklu, M. & Ozkan, I. A.", 2020, "Dry Bean", "C50S4B"),
        uci_id=602,
        source=uci_archive(602, "dry+bean+dataset", ("Dry_Bean_Dataset.arff",), Arff()),
        notes="Has 68 duplicate rows, like the original. 'AspectRation' is spelled as in the original.",
        content_sha256="2c6c6f4cd4878fc05da4fa83d965effe80e186e8d8439c188a0b38b28b07d4de",
    ),
    DatasetSpec(
        name="letter",
        title="Letter Recognition",
        task="classification",
        target="lettr",
        columns=LETTER,
        n_samples=20000,
        n_classes=26,
        description="Statistics of the pixels of distorted printed capital letters; which letter is it?",
        license=CC_BY,
        citation=uci_citation("Slate, D.", 1991, "Letter Recognition", "C5ZP40"),
        uci_id=59,
        source=uci_archive(59, "letter+recognition", ("letter-recognition.data",), _target_first(LETTER)),
        notes="The first 16,000 rows are the customary training part.",
        content_sha256="e6b8331b8b5fb9f8a94591e44c5c328807c624b53ad686a0b1773819a5ab486e",
    ),
    DatasetSpec(
        name="electrical_grid",
        title="Electrical Grid Stability",
        task="classification",
        target="stabf",
        columns=GRID,
        leaking=("stab",),
        n_samples=10000,
        n_classes=2,
        description="Simulated electrical grids with four nodes; is the grid stable?",
        license=CC_BY,
        citation=uci_citation("Arzamasov, V.", 2018, "Electrical Grid Stability Simulated Data", "C5PG66"),
        uci_id=471,
        source=uci_archive(471, "electrical+grid+stability+simulated+data", ("Data_for_UCI_named.csv",), Delimited()),
        notes="The label is the sign of 'stab'. The paper's accuracy of 99.8 % is not reachable without that column.",
        content_sha256="9456f66a0dd8fe72d66ac6d01c0595da3c53cfe28865098abc46444d9e599cb0",
    ),
    DatasetSpec(
        name="susy",
        title="SUSY",
        task="classification",
        target="class",
        columns=SUSY,
        n_samples=25000,
        n_samples_original=5_000_000,
        may_be_sampled=True,
        n_classes=2,
        integer_labels=True,
        description="Simulated collisions of particles; did it produce supersymmetric particles (1) or not (0)?",
        license=CC_BY,
        citation=uci_citation("Whiteson, D.", 2014, "SUSY", "C54606"),
        uci_id=279,
        source=uci_archive(279, "susy", ("SUSY.csv",), _target_first(SUSY)),
        notes="The paper does not state which 25,000 rows it uses; these are the first ones. The archive has 900 MB.",
    ),
    DatasetSpec(
        name="isolet",
        title="ISOLET",
        task="classification",
        target="class",
        columns=ISOLET,
        n_samples=7797,
        n_classes=26,
        integer_labels=True,
        description="Features of recordings of spoken letters; which letter is it (1 = A, ..., 26 = Z)?",
        license=CC_BY,
        citation=uci_citation("Cole, R. & Fanty, M.", 1991, "ISOLET", "C51G69"),
        uci_id=54,
        source=uci_archive(54, "isolet", ("isolet1+2+3+4.data", "isolet5.data"), Delimited(ISOLET)),
        notes="The first 6,238 rows are the customary training part, the other 1,559 (other speakers) the test part.",
        content_sha256="9a7fcddd13ed02b63d40061c49bbfc174410a429c3eca9358b965d253f5af85f",
    ),
    DatasetSpec(
        name="waveform",
        title="Waveform (version 2)",
        task="classification",
        target="class",
        columns=WAVEFORM,
        n_samples=5000,
        n_classes=3,
        integer_labels=True,
        description="Noisy mixtures of two of three waves, and 19 features of pure noise; which two waves are mixed?",
        license=CC_BY,
        citation=uci_citation("Breiman, L. & Stone, C.", 1984, "Waveform Database Generator (Version 2)", "C56014"),
        uci_id=108,
        source=uci_archive(
            108, "waveform+database+generator+version+2", ("waveform-+noise.data",), Delimited(WAVEFORM)
        ),
        notes="x22 to x40 are the noise.",
        content_sha256="6132f9a58a5bbf9f5c52d8d87393e292a3a3efcf4541733a1bc21fbe7c271e26",
    ),
    DatasetSpec(
        name="xor",
        title="XOR of four Gaussians",
        task="classification",
        target="class",
        columns=("x1", "x2", "class"),
        n_samples=200,
        n_classes=2,
        integer_labels=True,
        description="Two classes of two Gaussians each, at opposite corners of a square, with variance 0.3.",
        license="none needed: generated",
        citation="Nikolentzos, G. et al. (2024). Graph Neural Machine. arXiv:2402.02862, section 6.5.",
        source=Computed("generated", lambda variant: make_xor()),
        notes=f"Drawn with seed 0. The Gaussians overlap: the best possible accuracy is {xor_bayes_accuracy():.1%}.",
        in_tables=False,
    ),
)
