from typing import Any
def python_file(estimator: Any) -> str:
    return ""
