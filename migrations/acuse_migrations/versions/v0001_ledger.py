"""The ledger: events, operations, attempts, evidence, approvals, and the functions that move them."""

from pathlib import Path

from alembic import op

from acuse_migrations.statements import run_folder

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create everything in the schema `acuse`."""
    run_folder(Path(__file__).parent / "sql_0001")
    op.execute("select acuse.ensure_partitions(13)")
    op.execute("insert into acuse.meta (key, value) values ('ledger_id', replace(gen_random_uuid()::text, '-', ''))")
