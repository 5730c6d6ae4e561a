# SPDX-License-Identifier: GPL-2.0-only
#
# Instructions per send over its size, from bench-notif.dat of tools/bench-notif-report:
#   gnuplot -e "data='bench-notif.dat'; out='bench-notif.png'; kind='png'; note='...'" bench-notif.gnuplot
# kind is png or svg.

if (kind eq 'png') {
	set terminal pngcairo size 1500,1200 noenhanced font 'sans,11'
} else {
	set terminal svg size 1500,1200 noenhanced font 'sans,11' background '#ffffff'
}
set output out

set logscale x
set xrange [80:10000]
set yrange [0:*]
set offsets 0,0,graph 0.25,0
set xtics (100, 1200, 4000, 8000)
set xlabel 'bytes a send'
set grid ytics lc rgb '#e0e0e0'
set border 3 lc rgb '#888888'
set tics nomirror
set key left top

grey = '#a9b4c0'
blue = '#2b7bba'
sand = '#d9a441'
red = '#b5483a'

set multiplot layout 2,2 title note font ',12'
do for [i = 0:2] {
	set title 'Guest instructions a send, ' . (i == 0 ? 'to a dummy device' : 'over veth, receiver included, ' . (i == 1 ? 'SCHED_FIFO' : 'default scheduler'))
	plot data index i using 1:2 with linespoints lw 2 pt 7 lc rgb grey title 'plain send', \
	     '' index i using 1:3 with linespoints lw 2 pt 5 lc rgb sand title 'MSG_ZEROCOPY', \
	     '' index i using 1:4 with linespoints lw 2 pt 9 lc rgb red title 'io_uring, unstacked', \
	     '' index i using 1:5 with linespoints lw 2 pt 7 lc rgb blue title 'io_uring, stacked'
}

unset logscale x
unset xlabel
set xrange [*:*]
set style data histograms
set style fill solid noborder
set logscale y
set yrange [1:*]
set offsets 0.5,0.5,graph 0.1,0
set xtics auto
set title 'Sends until a notification in a steady stream, at most'
plot data index 3 using 2:xtic(sprintf('%d B', column(1))) lc rgb grey title 'base', '' index 3 using 3 lc rgb blue title 'patched', \
     '' index 3 using ($0 - 0.15):2:2 with labels offset 0,0.5 font ',9' notitle, \
     '' index 3 using ($0 + 0.18):3:3 with labels offset 0,0.5 font ',9' notitle
unset multiplot
