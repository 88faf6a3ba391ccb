"""The commands of docs/server.md, run as they are printed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers import documented, program
from helpers.serving import serving

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_server_page_work(tmp_path: Path) -> None:
    (tmp_path / ".curlrc").write_text("fail\n")  # an error of the server is an error of curl
    for name, text in documented.parse("docs/server.md", PAGE).files.items():
        (tmp_path / name).write_text(text)
    with serving("--db", tmp_path / "pilot.db") as (_, lines, port):
        env = os.environ | {
            "PATH": f"{program.DECO.parent}{os.pathsep}{os.environ['PATH']}",
            "CURL_HOME": str(tmp_path),
            "URL": f"http://127.0.0.1:{port}",
            "TOKEN": lines[0].split()[-1],
        }
        said = ""
        for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S):
            done = subprocess.run(
                ["sh", "-e", "-c", block],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                timeout=program.PATIENCE,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            said += done.stdout
    assert '"status":"ok"' in said
    assert '"outcome":1' in said
    assert '"problems":[],"ok":true' in said
    assert "ann: revoked" in said
    assert "visit 3: every slot of the trial is in use" in said  # by the client
