# Draws the results of bench/skipping as an SVG chart.  There is a panel for each
# state, with a line for each contender, relative to stock VACUUM.  Both axes are
# logarithmic, and the panels have the same scale.  Lines differ in color and in
# width.  This file must be given to awk after svg.awk.
#
# Input: "percent state contender ms scanned total" for each.

BEGIN {
    left = 60; width = 810; top = 64; height = 200; gap = 68
    contender("ours", "parvacuum", "#2f81f7", 3)
    contender("core", "core's rule, parvacuum", "#d1720f", 1.4)
    contender("all", "skip all that may be skipped, parvacuum", "#2a9d5c", 1.4)
    title["shared"] = "in shared buffers: time relative to stock VACUUM"
    title["cold"] = "cold: time relative to stock VACUUM"
}

{
    if (!seen[$2]++) state[++panels] = $2
    if (!seen[$1]++) percent[++percents] = $1
    ms[$2, $1, $3] = $4
}

function bottom(p) { return top + p * height + (p - 1) * gap }

function across(value) {
    return left + width * (log10(value) - log10(percent[1]) + 0.1) / (log10(percent[percents]) - log10(percent[1]) + 0.2)
}

function up(p, value) { return bottom(p) - height * (log10(value) - low) / (high - low) }

function ratio(p, i, who) { return ms[state[p], percent[i], who] / ms[state[p], percent[i], "stock"] }

# The range of the scale.  It includes the ratio 1 and a small margin.
function scale(   p, i, k, value) {
    for (p = 1; p <= panels; p++)
        for (i = 1; i <= percents; i++)
            for (k = 1; k <= nknown; k++) {
                value = log10(ratio(p, i, known[k]))
                if (value < low) low = value
                if (value > high) high = value
            }
    low -= 0.05; high += 0.05
}

function grid(p,   power, i, digits, value) {
    split("1 1.5 2 3 5 7", digits, " ")
    for (power = int(low) - 1; power <= high; power++)
        for (i = 1; i <= 6; i++) {
            value = digits[i] * 10 ^ power
            if (log10(value) < low || log10(value) > high) continue
            segment(left, up(p, value), left + width, up(p, value),
                sprintf("#767676\" stroke-opacity=\"%s\"", value == 1 ? "1" : "0.35"))
            text(left - 8, up(p, value) + 4, "end", sprintf("%g", value))
        }
    for (i = 1; i <= percents; i++) {
        segment(across(percent[i]), bottom(p) - height, across(percent[i]), bottom(p), "#767676\" stroke-opacity=\"0.2\"")
        text(across(percent[i]), bottom(p) + 16, "middle", percent[i] " %")
    }
    text(left + width, bottom(p) + 34, "end", "of the rows updated")
}

function draw(p, who,   i) {
    printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" points=\"", colour[who], stroke[who]
    for (i = 1; i <= percents; i++) printf "%s%.1f,%.1f", (i > 1 ? " " : ""), across(percent[i]), up(p, ratio(p, i, who))
    print "\"/>"
    for (i = 1; i <= percents; i++)
        printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\"/>\n", across(percent[i]), up(p, ratio(p, i, who)),
            stroke[who] + 1, colour[who]
}

END {
    scale()
    open_svg(900, bottom(panels) + 46)
    px = left
    for (k = 1; k <= nknown; k++) {
        segment(px, 16, px + 28, 16, colour[known[k]] "\" stroke-width=\"" stroke[known[k]] "\"")
        text(px + 36, 20, "start", name[known[k]])
        px += 70 + 6.4 * length(name[known[k]])
    }
    for (p = 1; p <= panels; p++) {
        text(left + width / 2, bottom(p) - height - 12, "middle", title[state[p]])
        grid(p)
        for (k = nknown; k >= 1; k--) draw(p, known[k])     # ours on top
    }
    print "</svg>"
}
