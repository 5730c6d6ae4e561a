# SPDX-License-Identifier: GPL-2.0-only
#
# Base and patched kernel side by side, from bench.dat of tools/bench-report:
#   gnuplot -e "data='bench.dat'; out='bench.png'; kind='png'; note='...'" bench.gnuplot
# kind is png or svg. bench.dat has one block a figure, in the order of the titles below.

if (kind eq 'png') {
	set terminal pngcairo size 1500,1200 noenhanced font 'sans,11'
} else {
	set terminal svg size 1500,1200 noenhanced font 'sans,11' background '#ffffff'
}
set output out

array titles[8] = [ "Entries into the receive path per message, io_uring multishot", \
	"Packets per round trip", \
	"Receiver, io_uring multishot: guest instructions per message", \
	"Round trip, io_uring multishot: guest instructions per message", \
	"Receiver, blocking recv(): guest instructions per message", \
	"Round trip, blocking recv(): guest instructions per message", \
	"recv() draining a queue of 15: guest instructions per call", \
	"recv() that leaves messages queued: guest instructions per call" ]

set style data histograms
set style histogram clustered gap 1
set style fill solid noborder
set offsets 0,0,graph 0.1,0
set yrange [0:*]
set grid ytics lc rgb '#e0e0e0'
set border 3 lc rgb '#888888'
set tics nomirror
set xtics font ',9' scale 0
set key at screen 0.99,0.985 right top horizontal samplen 1

# A number above each bar: counts with two digits, instructions in thousands.
number(v) = v < 100 ? sprintf('%.2f', v) : v < 10000 ? sprintf('%.0f', v) : sprintf('%.1fk', v / 1000)

set multiplot layout 4,2 title note font ',12' margins 0.05,0.99,0.05,0.93 spacing 0.05,0.085
do for [i = 0:7] {
	set title titles[i + 1]
	plot data index i using 2:xtic(1) title 'base' lc rgb '#a9b4c0', \
	     '' index i using 3 title 'patched' lc rgb '#2b7bba', \
	     '' index i using ($0 - 1./6):2:(number($2)) with labels offset 0,0.5 font ',8' notitle, \
	     '' index i using ($0 + 1./6):3:(number($3)) with labels offset 0,0.5 font ',8' notitle
	unset key
}
unset multiplot
