"""Latency and bandwidth by size for every network: ours, the best variant of each peer, and the limit; by gnuplot."""
import statistics

from . import goals, paths, programs

SIZES = [64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20]  # marked on the axis


def _best(samples, network, op):
    """(role, subject): {size: us}, each of the subject's best variant for that size."""
    lines: dict[tuple[str, str], dict[int, float]] = {}
    for (n, role, name, _variant, o, size), us in samples.us.items():
        if (n, o) == (network, op):
            sizes = lines.setdefault((role, name), {})
            median = statistics.median(us)
            sizes[size] = min(median, sizes.get(size, median))
    order = {"limit": 0, "ours": 1, "peer": 2}
    return sorted(lines.items(), key=lambda item: order[item[0][0]])


def _style(role):
    return {"limit": "lw 3 dt 2 lc rgb '#808080'", "ours": "lw 4 lc rgb '#d02020' pt 7"}.get(role, "lw 1.5")


def draw(samples, networks, path):
    """False when there is nothing to draw or no gnuplot."""
    networks = [n for n in networks if any(key[0] == n for key in samples.us)]
    if not networks:
        return False
    script = [f"set terminal pngcairo size 1800,{560 * len(networks)} font 'sans,11' noenhanced",
              f"set output '{path}'",
              f"set multiplot layout {len(networks)},4", "set logscale x 2", "set grid", "set key top left font ',9'",
              "set xtics rotate by -40 font ',8' (" + ", ".join(f"'{goals.size_name(s)}' {s}" for s in SIZES) + ")"]
    for network in networks:
        for rate in (False, True):
            for op in ("put", "get"):
                curves: list[str] = []
                data: list[str] = []
                for (role, name), sizes in _best(samples, network, op):
                    points = [(s, s / us / 1000 if rate else us) for s, us in sorted(sizes.items())
                              if rate or s <= 65536]
                    if not points:
                        continue
                    block = f"$d{len(data)}_{len(script)}"
                    data.append(block + " << EOD\n" + "\n".join(f"{x} {y}" for x, y in points) + "\nEOD")
                    curves.append(f"{block} using 1:2 with linespoints {_style(role)} title '{name}'")
                if not curves:
                    continue
                script += data
                script += [f"set title '{network}: {op}'", f"set ylabel '{'GB/s' if rate else 'us, complete'}'",
                           "unset logscale y" if rate else "set logscale y",
                           f"set key top {'right' if rate else 'left'}",
                           "set yrange [0:*]" if rate else "set yrange [*:*]", "plot " + ", ".join(curves)]
    script.append("unset multiplot")
    source = paths.WORK / "plot.gnuplot"
    source.write_text("\n".join(script) + "\n")
    programs.run(["gnuplot", source], None, 30)
    return path.exists()
