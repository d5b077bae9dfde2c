# Functions that the charts share.  This file must be given to awk before the file
# of the chart.  The colors are legible on white and on black.

function log10(value) { return log(value) / log(10) }

# The distance of grid lines: 1, 2 or 5 times a power of ten, chosen so that a
# scale has at most "most" lines.
function step(range, most,   size) {
    size = 10 ^ int(log10(range / most) + 9) / 1e9
    return size * (range / size <= most ? 1 : range / size <= 2 * most ? 2 : range / size <= 5 * most ? 5 : 10)
}

# Define a contender: its printed name, color, and width of line.
function contender(who, caption, shade, thick) {
    known[++nknown] = who; name[who] = caption; colour[who] = shade; stroke[who] = thick
}

function open_svg(wide, high) {
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"", wide, high,
        wide, high
    print " font-family=\"sans-serif\" font-size=\"12\" fill=\"#767676\">"
}

function text(px, py, anchor, words) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", px, py, anchor, words
}

function segment(x1, y1, x2, y2, attributes) {
    printf "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s/>\n", x1, y1, x2, y2, attributes
}
