"""`leat serve` beside nginx with sendfile, the same files, the same client; and its pacing: bench/out/serve.json.

python bench/bench_serve.py [--build build/release] [--runs 7]
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
FILES = 32
SIZE = 8 * MIB
CONNECTIONS = 16

NGINX = """
worker_processes auto;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; location / {{ root {served}; }} }}
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def wait_for(url):
    deadline = time.monotonic() + 10
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def start_leat(build, served, *options):
    command = [str(Path(build) / "src" / "cli" / "leat"), "serve", str(served), "--read-only", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def start_nginx(folder, served):
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, served=served, port=port))
    process = subprocess.Popen([shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(config)])
    url = f"http://127.0.0.1:{port}"
    wait_for(url + "/bucket/small")
    return process, url


def cpu_s(pid):
    """User and system time of a process and its children that live."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(stat.parent.name) == pid or int(fields[1]) == pid:
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def fetch(folder, urls, connections, *more):
    """Seconds for curl to get them all and throw them away."""
    config = folder / "curl.conf"
    config.write_text("".join(f'url = "{url}"\noutput = "/dev/null"\n' for url in urls))
    command = ["curl", "--silent", "--fail", "--parallel", "--parallel-immediate", *more]
    began = time.monotonic()
    subprocess.run(
        [*command, "--parallel-max", str(connections), "--config", str(config)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.monotonic() - began


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def shown(s, digits=0):
    return f"{s['median']:.{digits}f}  ({s['min']:.{digits}f} … {s['max']:.{digits}f})"


def compare(rivals, folder, runs):
    """Interleaved: one run each, then again."""
    out = {name: {"mb_per_s": [], "cpu_s_per_gb": [], "small_per_s": []} for name, _, _ in rivals}
    for turn in range(runs + 1):
        for name, process, url in rivals:
            urls = [f"{url}/bucket/f{i % FILES}" for i in range(8 * FILES)]
            before = cpu_s(process.pid)
            took = fetch(folder, urls, CONNECTIONS)
            used = cpu_s(process.pid) - before
            small = fetch(folder, [f"{url}/bucket/small"] * 3000, CONNECTIONS)
            if turn == 0:
                continue  # warming up
            out[name]["mb_per_s"].append(len(urls) * SIZE / took / 1e6)
            out[name]["cpu_s_per_gb"].append(used / (len(urls) * SIZE / 1e9))
            out[name]["small_per_s"].append(3000 / small)
    return out


def pacing(build, served, folder):
    """Rates reached, as a share of the ones stated."""
    out = []
    for options, connections, rate, files in [
        (("--bandwidth", "400MB/s"), 16, 400e6, 240),
        (("--bandwidth", "400MB/s", "--connection-bandwidth", "25MB/s"), 32, 400e6, 240),
        (("--connection-bandwidth", "25MB/s"), 8, 200e6, 120),
        (("--bandwidth", "50MB/s"), 4, 50e6, 30),
    ]:
        process, url = start_leat(build, served, *options)
        urls = [f"{url}/bucket/f{i % FILES}" for i in range(files)]
        before = cpu_s(process.pid)
        took = fetch(folder, urls, connections)
        used = cpu_s(process.pid) - before
        process.terminate()
        process.wait()
        reached = files * SIZE / took
        row = {"options": " ".join(options), "connections": connections, "share": reached / rate, "seconds": took}
        row["cpu_s_per_gb"] = used / (files * SIZE / 1e9)
        out.append(row)
        print(
            f"  {row['options']:52} {connections:3} connections  {100 * row['share']:6.2f} %  over {took:.1f} s,"
            f"  {row['cpu_s_per_gb']:.2f} CPU s/GB"
        )
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        served = folder / "served"
        (served / "bucket").mkdir(parents=True)
        folder.chmod(0o755)
        for i in range(FILES):
            (served / "bucket" / f"f{i}").write_bytes(os.urandom(SIZE))
        (served / "bucket" / "small").write_bytes(os.urandom(1000))
        rivals = [("nginx", *start_nginx(folder, served)), ("leat serve", *start_leat(options.build, served))]
        try:
            result = compare(rivals, folder, options.runs)
        finally:
            for _, process, _ in rivals:
                process.terminate()
                process.wait()
        ratios = [a / b for a, b in zip(result["leat serve"]["mb_per_s"], result["nginx"]["mb_per_s"])]
        print(f"{FILES} files of 8 MiB from the page cache, curl with {CONNECTIONS} connections: median (min … max)")
        for name, values in result.items():
            print(
                f"  {name:12} {shown(spread(values['mb_per_s'])):24} MB/s   "
                f"{shown(spread(values['cpu_s_per_gb']), 2):20} CPU s/GB   "
                f"{shown(spread(values['small_per_s'])):22} answers/s of 1 kB"
            )
        print(f"  leat serve / nginx, run by run: {shown(spread(ratios), 2)}   (aim: 0.90)")
        print("Pacing: what was reached of what was stated")
        paced = pacing(options.build, served, folder)
    out = ROOT / "bench" / "out"
    out.mkdir(exist_ok=True)
    summary = {name: {k: spread(v) for k, v in values.items()} for name, values in result.items()}
    summary["ratio"] = spread(ratios)
    summary["pacing"] = paced
    (out / "serve.json").write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
