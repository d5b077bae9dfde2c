# Draws the results of bench/churn as an SVG chart.  It has three panels over time,
# with both contenders in each.  The contenders' lines differ in color and in width.
# This file must be given to awk after svg.awk.
#
# Input: "contender|line|seconds|value" for each point.  The lines are "size" and
# "splits" of index 1 (the primary key) and index 2 (the index on abalance), and
# "average" and "maximum" latency.  The events are "autovacuum" and "snapshot".

BEGIN {
    FS = "|"
    left = 60; width = 810; top = 64; height = 150; gap = 56
    contender("with", "with sweeps", "#2f81f7", 3)
    contender("without", "without sweeps", "#d1720f", 1.4)
    panel("size of the index on abalance (solid) and of the primary key (dashed), MB", "size 2", "size 1")
    panel("leaf page splits per " every " s: index on abalance (solid), primary key (dashed)", "splits 2", "splits 1")
    panel("latency per " every " s, ms: average (solid), maximum (dashed)", "average", "maximum")
    logarithmic[3] = 1
}

function panel(caption, solid, dashed) {
    title[++panels] = caption; panel_of[solid] = panel_of[dashed] = panels
    dash["with", dashed] = " stroke-dasharray=\"5 4\""
    dash["without", dashed] = dash["with", dashed] " stroke-dashoffset=\"4.5\""     # in the gaps of the other line
}

# Store a point, and extend the ranges of the scales.
($2 in panel_of) && !(logarithmic[panel_of[$2]] && $4 <= 0) {
    p = panel_of[$2]; i = ++n[$1, $2]
    x[$1, $2, i] = $3; y[$1, $2, i] = logarithmic[p] ? log10($4) : $4
    if (!(p in high) || y[$1, $2, i] > high[p]) high[p] = y[$1, $2, i]
    if (!(p in low) || y[$1, $2, i] < low[p]) low[p] = y[$1, $2, i]
    if ($3 > last) last = $3
}

$2 == "autovacuum" || $2 == "snapshot" { event[$1, $2, ++events[$1, $2]] = $3 }

function triangle(px, py, shade) {
    printf "<polygon points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\" fill=\"%s\"/>\n", px, py - 8, px + 5, py, px - 5, py,
        shade
}

function bottom(p) { return top + p * height + (p - 1) * gap }
function across(seconds) { return left + width * seconds / last }
function up(p, value) { return bottom(p) - height * (value - low[p]) / (high[p] - low[p]) }

function rule(p, value, label) {
    segment(left, up(p, value), left + width, up(p, value), "#767676\" stroke-opacity=\"0.35\"")
    text(left - 8, up(p, value) + 4, "end", label)
}

function grid(p,   value, size, digit) {
    if (logarithmic[p])
        for (value = int(low[p] - 1); value <= high[p]; value++)
            for (digit = 1; digit <= 5; digit += (digit == 1 ? 1 : 3)) {
                size = value + log10(digit)
                if (size >= low[p] && size <= high[p] && (digit == 1 || high[p] - low[p] <= 2))
                    rule(p, size, sprintf("%g", digit * 10 ^ value))
            }
    else {
        size = step(high[p], 5)
        for (value = 0; value <= high[p]; value += size) rule(p, value, sprintf("%g", value))
    }
}

# The ticks of the time axis are minutes, or simple fractions or multiples of them.
function time_axis(p,   size, value) {
    size = last <= 60 ? 5 : last <= 120 ? 10 : last <= 360 ? 30 : last <= 720 ? 60 : last <= 1800 ? 120 : step(last, 12)
    for (value = 0; value <= last; value += size) {
        segment(across(value), bottom(p) - height, across(value), bottom(p), "#767676\" stroke-opacity=\"0.2\"")
        text(across(value), bottom(p) + 16, "middle", sprintf("%g%s", value, value ? "" : " s"))
    }
}

function draw(who, what,   i) {
    if (!n[who, what]) return
    printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s points=\"", colour[who], stroke[who],
        dash[who, what]
    for (i = 1; i <= n[who, what]; i++)
        printf "%s%.1f,%.1f", (i > 1 ? " " : ""), across(x[who, what, i]), up(panel_of[what], y[who, what, i])
    print "\"/>"
}

function legend(   k, px) {
    px = left
    for (k = 1; k <= nknown; k++) {
        segment(px, 16, px + 28, 16, colour[known[k]] "\" stroke-width=\"" stroke[known[k]] "\"")
        text(px + 36, 20, "start", name[known[k]])
        px += 70 + 6.4 * length(name[known[k]])
    }
    triangle(px, 20, "#767676")
    text(px + 12, 20, "start", "an autovacuum has ended")
    px += 48 + 6.4 * length("an autovacuum has ended")
    if (events["without", "snapshot"]) {
        printf "<rect x=\"%.1f\" y=\"9\" width=\"28\" height=\"14\" fill-opacity=\"0.15\"/>\n", px
        text(px + 36, 20, "start", "a snapshot is held")
    }
}

END {
    total = bottom(panels) + 28
    open_svg(900, total)
    legend()
    for (p = 1; p <= panels; p++) {
        if (logarithmic[p]) low[p] -= 0.05
        else low[p] = 0
        high[p] = logarithmic[p] ? high[p] + 0.05 : high[p] > 0 ? high[p] * 1.05 : 1
        text(left + width / 2, bottom(p) - height - 12, "middle", title[p])
        if (events["without", "snapshot"] == 2)
            printf "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill-opacity=\"0.15\"/>\n",
                across(event["without", "snapshot", 1]), bottom(p) - height,
                across(event["without", "snapshot", 2]) - across(event["without", "snapshot", 1]), height
        grid(p)
        time_axis(p)
        for (k = 1; k <= nknown; k++)
            for (what in panel_of)
                if (panel_of[what] == p) draw(known[k], what)
    }
    for (k = 1; k <= nknown; k++)
        for (i = 1; i <= events[known[k], "autovacuum"]; i++)
            triangle(across(event[known[k], "autovacuum", i]), bottom(1) - 10 * (k - 1), colour[known[k]])
    print "</svg>"
}
