"""Logging of the processes: structlog to standard error, one event a line. Never a payload."""

import logging
import sys

import structlog

__all__ = ["configure_logging"]


def configure_logging(format: str = "json", level: str = "info") -> None:  # noqa: A002  # the word of the setting
    """Set structlog up for a process. `format` is `json` or `console`; `level` a level's name."""
    number = logging.getLevelNamesMapping()[level.upper()]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
    )
    # Without the local variables of the frames, which structlog shows by default: a payload is among them.
    tracebacks = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            tracebacks if format == "json" else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # The libraries' own loggers (Dramatiq, httpx): warnings and worse, on the same stream.
    logging.basicConfig(
        stream=sys.stderr, level=max(number, logging.WARNING), format="%(levelname)s %(name)s %(message)s", force=True
    )
