# SPDX-License-Identifier: BSD-2-Clause
"""A real browser (Debian's chromium, headless) by its DevTools pipe: pages shown, looked at, photographed."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = "/usr/bin/chromium"
TIMEOUT_S = 120


class BrowserError(Exception):
    """The browser did not answer, or said that something is wrong."""


class Browser:
    """One tab. Needs: chromium. What the page complains of is in `complaints`."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="keel-browser-")
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-extensions", "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={self.folder}", "about:blank"]
        # The pipe's two ends have to be descriptors 3 and 4 there; from 10 on they are in nobody's way.
        high = [fd_above(theirs_in), fd_above(theirs_out)]
        script = f'exec 3<&{high[0]} 4>&{high[1]}; exec "$@"'
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(["bash", "-c", script, "sh", *command], pass_fds=high, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        for fd in [theirs_in, theirs_out, *high]:
            os.close(fd)
        self.near_in, self.near_out = ours_in, ours_out
        self.buffer, self.number, self.complaints = b"", 0, []
        self.session = None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, kind, error, trace):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.near_in)
        os.close(self.near_out)
        shutil.rmtree(self.folder, ignore_errors=True)

    def take(self, deadline):
        """The next message; events that tell of a fault are kept."""
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.near_in], [], [], left)[0]:
                raise BrowserError("the browser does not answer")
            data = os.read(self.near_in, 1 << 20)
            if not data:
                raise BrowserError("the browser has ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(message["params"])
        return message

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.near_out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.take(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]

    def show(self, path, width, height, dark):
        """Loads a file at that size and in that scheme, and waits until it is shown."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        deadline = time.monotonic() + TIMEOUT_S
        while self.evaluate("document.readyState + location.pathname") != "complete" + os.path.abspath(path):
            if time.monotonic() > deadline:
                raise BrowserError(f"{path} is not shown")

    def evaluate(self, expression):
        """What a line of script gives in the page, by value."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def photograph(self, path):
        """The whole page as a PNG."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as out:
            out.write(base64.b64decode(picture["data"]))


def fd_above(fd):
    """A copy of a descriptor with a number from 10 on."""
    import fcntl
    return fcntl.fcntl(fd, fcntl.F_DUPFD, 10)
