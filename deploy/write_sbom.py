"""Write the SBOM of the container image from its lock file: `make lock` runs this.

Usage: write_sbom.py LOCK SBOM. CycloneDX 1.6, JSON: name, version, purl and SHA-256 hashes of every
locked package, and decobandit itself as the component that they belong to.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

PINNED = re.compile(r"^([\w.-]+)==([^\s;]+)(.*?)(?=^[\w.-]+==|\Z)", re.MULTILINE | re.DOTALL)
VERSION_FILE = Path(__file__).parents[1] / "src" / "decobandit" / "_version.py"


def components(lock: str) -> Iterator[Component]:
    """Yield the packages of a lock file in the format of pip, with their hashes."""
    for name, version, rest in PINNED.findall(lock):
        digests = re.findall(r"--hash=sha256:([0-9a-f]{64})", rest)
        yield Component(
            name=name,
            version=version,
            type=ComponentType.LIBRARY,
            bom_ref=f"{name}=={version}",
            purl=PackageURL("pypi", None, name, version),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in digests],
        )


def sbom(lock: str) -> str:
    """Return the SBOM as JSON, the same text for the same lock file."""
    (version,) = re.findall(r'^__version__ = "(.+)"', VERSION_FILE.read_text("utf-8"), re.MULTILINE)
    image = Component(
        name="decobandit",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"decobandit=={version}",
    )
    packages = list(components(lock))
    bom = Bom(components=packages)
    bom.metadata.component = image
    bom.register_dependency(image, packages)
    tree = json.loads(JsonV1Dot6(bom).output_as_string())
    del tree["serialNumber"], tree["metadata"]["timestamp"]
    return json.dumps(tree, indent=1) + "\n"


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(sbom(source.read_text(encoding="utf-8")), encoding="utf-8")
