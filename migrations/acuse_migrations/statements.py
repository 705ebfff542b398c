"""Running a folder of SQL files in the order of their names, for a revision."""

from pathlib import Path

from alembic import op
from sqlalchemy import text

__all__ = ["run_folder"]


def run_folder(folder: Path) -> None:
    """Run every `.sql` file of a folder. In offline mode the text is printed as it is."""
    for file in sorted(folder.glob("*.sql")):
        statement = file.read_text(encoding="utf-8")
        if op.get_context().as_sql:
            op.execute(text(statement.replace(":", r"\:")))
        else:
            # As one simple query: the files hold function bodies, and their % signs are no placeholders.
            op.get_bind().execution_options(no_parameters=True).exec_driver_sql(statement)
