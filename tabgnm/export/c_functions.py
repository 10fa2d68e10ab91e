"""C functions that exported programs call; a program contains only those that it needs."""

from __future__ import annotations

from collections.abc import Iterable

# Name -> (text, functions that it calls). "@" stands for the prefix of all names of the program.
_FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "clamp": (
        """\
static double @_clamp(double x, double most)
{
    return x > most ? most : x < -most ? -most : x;
}
""",
        (),
    ),
    # Predictions in Python use encoded numbers of this precision; casting larger numbers than FLT_MAX is undefined.
    "single": (
        """\
static double @_single(double x)
{
    return (double)(float)@_clamp(x, (double)FLT_MAX);
}
""",
        ("clamp",),
    ),
    "linear": (
        """\
static double @_linear(double x, double centre, double scale)
{
    return @_clamp(@_clamp(x - centre, DBL_MAX) / scale, DBL_MAX);
}
""",
        ("clamp",),
    ),
    "smooth": (
        """\
static double @_smooth(double x, double centre, double scale)
{
    const double z = @_clamp(@_linear(x, centre, scale), 1e9);
    return z / sqrt(1.0 + z / 3.0 * (z / 3.0));
}
""",
        ("linear",),
    ),
    "joined": (
        """\
/* Linear interpolation between points, constant outside of them. */
static double @_joined(double x, const double *knots, const double *targets, int n)
{
    int low = 0, high = n - 1;
    if (x <= knots[0]) {
        return targets[0];
    }
    if (x >= knots[n - 1]) {
        return targets[n - 1];
    }
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (x < knots[middle]) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return targets[low] + (x - knots[low]) / (knots[high] - knots[low]) * (targets[high] - targets[low]);
}
""",
        (),
    ),
    "find": (
        """\
/* 0 for a missing text, 1 for the first level, and so on; n + 1 for any other text. Levels are in ascending order. */
static int @_find(const char *text, const char *const *levels, int n)
{
    int low = 0, high = n;
    if (text == NULL) {
        return 0;
    }
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(text, levels[middle]);
        if (order == 0) {
            return middle + 1;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return n + 1;
}
""",
        (),
    ),
    "date": (
        """\
/* Days since 1970, year, month, day, weekday (Monday is 0) and hour of the day, in UTC. */
static void @_date(double seconds, double parts[6])
{
    double day = floor(seconds / 86400.0);
    long era, year, month, rest, in_year;
    int part;
    if (isnan(seconds)) {
        for (part = 0; part < 6; part++) {
            parts[part] = seconds;
        }
        return;
    }
    day = @_clamp(day, 1e8); /* about 270,000 years */
    if (day * 86400.0 > seconds) {
        day -= 1.0;
    }
    parts[0] = seconds / 86400.0;
    parts[4] = day + 3.0 - 7.0 * floor((day + 3.0) / 7.0); /* 1970-01-01 was a Thursday */
    parts[5] = (seconds - day * 86400.0) / 3600.0;
    /* Years begin in March here, and an era has 400 years. */
    rest = (long)day + 719468;
    era = (rest >= 0 ? rest : rest - 146096) / 146097;
    rest -= era * 146097;
    year = (rest - rest / 1460 + rest / 36524 - rest / 146096) / 365;
    in_year = rest - (365 * year + year / 4 - year / 100);
    month = (5 * in_year + 2) / 153;
    parts[3] = (double)(in_year - (153 * month + 2) / 5 + 1);
    parts[2] = (double)(month < 10 ? month + 3 : month - 9);
    parts[1] = (double)(year + era * 400 + (month < 10 ? 0 : 1));
}
""",
        ("clamp",),
    ),
    "sort": (
        """\
static void @_sort(double *y, int n)
{
    int place, to;
    for (place = 1; place < n; place++) {
        const double value = y[place];
        for (to = place; to > 0 && y[to - 1] > value; to--) {
            y[to] = y[to - 1];
        }
        y[to] = value;
    }
}
""",
        (),
    ),
    "softmax": (
        """\
static void @_softmax(double *y, int n)
{
    const double largest = y[@_largest(y, n)];
    double sum = 0.0;
    int place;
    for (place = 0; place < n; place++) {
        y[place] = exp(y[place] - largest);
        sum += y[place];
    }
    for (place = 0; place < n; place++) {
        y[place] /= sum;
    }
}
""",
        ("largest",),
    ),
    "largest": (
        """\
static int @_largest(const double *y, int n)
{
    int place, best = 0;
    for (place = 1; place < n; place++) {
        if (y[place] > y[best]) {
            best = place;
        }
    }
    return best;
}
""",
        (),
    ),
    "relu": ("static double @_relu(double z)\n{\n    return z > 0.0 ? z : 0.0;\n}\n", ()),
    "leaky_relu": ("static double @_leaky_relu(double z)\n{\n    return z > 0.0 ? z : 0.01 * z;\n}\n", ()),
    "elu": ("static double @_elu(double z)\n{\n    return z > 0.0 ? z : expm1(z);\n}\n", ()),
    "gelu": (
        "static double @_gelu(double z)\n{\n    return 0.5 * z * (1.0 + erf(z * 0.70710678118654752));\n}\n",
        (),
    ),
    "silu": ("static double @_silu(double z)\n{\n    return z * @_sigmoid(z);\n}\n", ("sigmoid",)),
    "mish": ("static double @_mish(double z)\n{\n    return z * tanh(@_softplus(z));\n}\n", ("softplus",)),
    "softplus": ("static double @_softplus(double z)\n{\n    return z > 20.0 ? z : log1p(exp(z));\n}\n", ()),
    "tanh": ("static double @_tanh(double z)\n{\n    return tanh(z);\n}\n", ()),
    "sigmoid": (
        """\
static double @_sigmoid(double z)
{
    const double e = exp(-fabs(z)); /* cannot overflow */
    return z < 0.0 ? e / (1.0 + e) : 1.0 / (1.0 + e);
}
""",
        (),
    ),
}


def functions(names: Iterable[str], prefix: str) -> str:
    """Return the text of these functions, each after those that it calls."""
    written: dict[str, str] = {}

    def write(name: str) -> None:
        if name not in written:
            text, called = _FUNCTIONS[name]
            for other in called:
                write(other)
            written[name] = text

    for name in sorted(names):
        write(name)
    return "\n".join(written.values()).replace("@", prefix)
