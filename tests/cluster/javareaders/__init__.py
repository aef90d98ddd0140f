"""Java readers, for tests that read the output with the Java libraries for which the output is meant.

    written = run([HERE / "ReadFiles.java"], "ReadFiles", classpath("hdfs"), ["file:///a", "file:///b"])

A JVM takes a second to start and longer to load its classes, so one run reads many files. Only the jars are downloaded, once per machine.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from storeservers import cache

_POMS: Final = Path(__file__).parents[1] / "java"
_JVM: Final = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")
_SECONDS: Final = 300


class JavaFailed(RuntimeError):
    """The program failed. The message ends with the program's output."""


def classpath(pom_name: str) -> str:
    """The class path with the jars of `java/<pom_name>/pom.xml`. Raises BuildFailed if Maven is missing."""
    return f"{cache.jars(_POMS / pom_name / 'pom.xml')}/*"


def run(
    sources: Sequence[Path],
    main: str,
    classpath: str,
    arguments: Sequence[str],
    *,
    options: Sequence[str] = (),
) -> str:
    """Runs the class `main` of these sources and returns its output; `options` are for the JVM.

    Sources are compiled only when their content has changed. Raises BuildFailed if there is no compiler or compilation fails, and
    JavaFailed if the program exits with a status other than 0.
    """
    classes = cache.entry(f"java-{main}-{cache.key_of(*sources)}", lambda into: _compile(sources, classpath, into))
    command = [*_JVM, *options, "-cp", f"{classes}:{classpath}", main, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode != 0:
        raise JavaFailed(f"{main} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def _compile(sources: Sequence[Path], classpath: str, into: Path) -> None:
    named = [str(source.absolute()) for source in sources]
    # Don't run annotation processors from jars on the class path.
    cache.build(["javac", "-J-Xmx256m", "-proc:none", "-encoding", "UTF-8", "-cp", classpath, "-d", str(into), *named], cwd=into)
