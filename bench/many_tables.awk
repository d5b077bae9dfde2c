# Draws the results of bench/many_tables as an SVG chart.  The panels on the left
# show the time against the number of tables, with 2 GB and with 128 MB of shared
# buffers.  Those on the right show it against the number of workers, with rows
# deleted and anti-wraparound.  Each panel has a scale of its own that begins at 0.
# Lines differ in color and in width.  This file must be given to awk after svg.awk.
#
# Input: "part buffers tables workers contender s ..." for each.

BEGIN {
    width = 360; height = 200; top = 64; gap = 76
    contender("parvacuum", "parvacuum's scheduler", "#2f81f7", 3)
    contender("stock", "core's autovacuum", "#d1720f", 1.4)
    contender("kept", "core's autovacuum, nothing truncated", "#2a9d5c", 1.4)
    title[1] = "2 GB of shared buffers, " few " workers, s"
    title[2] = "128 MB of shared buffers, " few " workers, s"
    title[3] = "2 GB, " most " tables, s"
    title[4] = "anti-wraparound, 2 GB, " most " tables, s"
    below[1] = below[2] = "tables"; below[3] = below[4] = "workers"
}

function point(p, who, value, s,   i) {
    i = ++n[p, who]
    # keep the points sorted by value
    for (; i > 1 && x[p, who, i-1] > value; i--) { x[p, who, i] = x[p, who, i-1]; y[p, who, i] = y[p, who, i-1] }
    x[p, who, i] = value; y[p, who, i] = s
    if (value > last[p]) last[p] = value
    if (s > high[p]) high[p] = s
    if (!seen[p, value]++) tick[p, ++ticks[p]] = value
}

$1 == "normal" && $4 == few { point($2 == "2GB" ? 1 : 2, $5, $3, $6) }
$1 == "normal" && $3 == most && $2 == "2GB" { point(3, $5, $4, $6) }
$1 == "old" { point(4, $5, $4, $6) }

function left(p) { return p <= 2 ? 60 : 510 }
function bottom(p) { return top + height + (p % 2 ? 0 : height + gap) }
function across(p, value) { return left(p) + width * value / (last[p] * 1.03) }
function up(p, s) { return bottom(p) - height * s / (high[p] * 1.05) }

function grid(p,   value, size, i) {
    size = step(high[p], 5)
    for (value = 0; value <= high[p] * 1.05; value += size) {
        segment(left(p), up(p, value), left(p) + width, up(p, value), "#767676\" stroke-opacity=\"0.35\"")
        text(left(p) - 8, up(p, value) + 4, "end", sprintf("%g", value))
    }
    for (i = 1; i <= ticks[p]; i++) {
        value = tick[p, i]
        segment(across(p, value), bottom(p) - height, across(p, value), bottom(p), "#767676\" stroke-opacity=\"0.2\"")
        text(across(p, value), bottom(p) + 16, "middle", value)
    }
    text(left(p) + width, bottom(p) + 34, "end", below[p])
}

function draw(p, who,   i) {
    if (!n[p, who]) return
    printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" points=\"", colour[who], stroke[who]
    for (i = 1; i <= n[p, who]; i++)
        printf "%s%.1f,%.1f", (i > 1 ? " " : ""), across(p, x[p, who, i]), up(p, y[p, who, i])
    print "\"/>"
    for (i = 1; i <= n[p, who]; i++)
        printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\"/>\n", across(p, x[p, who, i]), up(p, y[p, who, i]),
            stroke[who] + 1, colour[who]
}

END {
    open_svg(900, bottom(2) + 46)
    px = left(1)
    for (k = 1; k <= nknown; k++) {
        segment(px, 16, px + 28, 16, colour[known[k]] "\" stroke-width=\"" stroke[known[k]] "\"")
        text(px + 36, 20, "start", name[known[k]])
        px += 70 + 6.4 * length(name[known[k]])
    }
    for (p = 1; p <= 4; p++) {
        if (!ticks[p]) continue
        text(left(p) + width / 2, bottom(p) - height - 12, "middle", title[p])
        grid(p)
        for (k = nknown; k >= 1; k--) draw(p, known[k])     # parvacuum on top
    }
    print "</svg>"
}
