# Draws the table of bench/deadtids/run as an SVG chart.  There is a row for each
# case, with a mark for each contender.  Look-up times are on the left and memory
# is on the right.  Both scales are logarithmic.  This file must be given to awk
# after ../svg.awk.
#
# Input: "label|contender|items|load|look-up|batch|bytes" for each.

BEGIN {
    FS = "|"
    row_height = 26; top = 74; panel = 330; left[1] = 170; left[2] = left[1] + panel + 40
    title[1] = "look-up, relative to the flat array"
    title[2] = "bytes per dead TID"
    describe("array", "flat array, bsearch", "#767676")
    describe("local", "parvacuum, local", "#2f81f7")
    describe("batch", "in batches", "#2f81f7")
    describe("shared", "parvacuum, shared", "#2f81f7")
    describe("intset", "IntegerSet", "#d1720f")
    describe("tidstore", "TidStore", "#a55ee8")
    describe("roaring", "CRoaring", "#2a9d5c")
}

function describe(who, caption, shade) {
    known[++nknown] = who; name[who] = caption; colour[who] = shade
}

# Store a mark of the current row, and extend the range of the scale.
function point(p, who, value) {
    x[p, rows, who] = log(value) / log(10); has[p, rows, who] = 1; present[who] = 1
    if (!(p in low) || x[p, rows, who] < low[p]) low[p] = x[p, rows, who]
    if (!(p in high) || x[p, rows, who] > high[p]) high[p] = x[p, rows, who]
}

{
    if ($1 != label[rows]) label[++rows] = $1
    if ($2 == "array") array = $5
    point(1, $2, $5 / array)
    if ($2 == "local") point(1, "batch", $6 / array)
    point(2, $2, $7 / $3)
}

# Draw a mark.  Contenders differ in shape and in color.
function mark(px, py, who,   fill) {
    fill = sprintf("fill=\"%s\"", colour[who])
    if (who == "array")
        printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"3\" height=\"14\" %s/>\n", px - 1.5, py - 7, fill
    else if (who == "local")
        printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" %s/>\n", px, py, fill
    else if (who == "shared" || who == "batch")
        printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"%s/>\n", px, py,
            who == "shared" ? "6.5" : "4", colour[who], who == "shared" ? " stroke-dasharray=\"2 2\"" : ""
    else if (who == "intset")
        printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" %s/>\n", px - 4, py - 4, fill
    else
        printf "<polygon points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f%s\" %s/>\n", px, py - 5, px + 5, py + 4, px - 5, py + 4,
            who == "tidstore" ? sprintf(" %.1f,%.1f", px, py - 5) : "", fill
}

function floor(value,   i) { i = int(value); return i > value ? i - 1 : i }

# The horizontal position of a logarithm on a panel.
function place(p, value) { return left[p] + panel * (value - low[p]) / (high[p] - low[p]) }

# Draw lines at 1, 2 and 5 times the powers of ten, or only at the powers of ten if
# the scale is long.
function grid(p, bottom,   power, digit, value, px) {
    for (power = floor(low[p]); power <= high[p]; power++)
        for (digit = 1; digit <= 5; digit += (digit == 1 ? 1 : 3)) {
            value = power + log(digit) / log(10)
            if (value < low[p] - 0.001 || value > high[p] + 0.001 || (digit > 1 && high[p] - low[p] > 2.5)) continue
            px = place(p, value)
            printf "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#767676\" stroke-opacity=\"0.35\"/>\n", px,
                top, px, bottom
            text(px, bottom + 16, "middle", sprintf("%g", digit * 10 ^ power))
        }
}

END {
    bottom = top + rows * row_height
    width = left[2] + panel + 30
    open_svg(width, bottom + 28)
    px = left[1]
    for (k = 1; k <= nknown; k++)
        if (known[k] in present) {
            mark(px, 16, known[k])
            text(px + 12, 20, "start", name[known[k]])
            px += 34 + 6.4 * length(name[known[k]])
        }
    for (p = 1; p <= 2; p++) {
        low[p] -= 0.1; high[p] += 0.1
        text(left[p] + panel / 2, top - 12, "middle", title[p])
        grid(p, bottom)
    }
    for (r = 1; r <= rows; r++) {
        py = top + (r - 0.5) * row_height
        text(left[1] - 14, py + 4, "end", label[r])
        for (p = 1; p <= 2; p++) {
            printf "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#767676\" stroke-opacity=\"0.2\"/>\n", left[p],
                py, left[p] + panel, py
            for (k = 1; k <= nknown; k++)
                if ((p, r, known[k]) in has) mark(place(p, x[p, r, known[k]]), py, known[k])
        }
    }
    print "</svg>"
}
