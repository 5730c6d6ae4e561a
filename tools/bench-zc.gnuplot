# SPDX-License-Identifier: GPL-2.0-only
#
# Error queue and control message side by side, from bench-zc.dat of tools/bench-zc-report:
#   gnuplot -e "data='bench-zc.dat'; out='bench-zc.png'; kind='png'; note='...'" bench-zc.gnuplot
# kind is png or svg.

if (kind eq 'png') {
	set terminal pngcairo size 1500,1200 noenhanced font 'sans,11'
} else {
	set terminal svg size 1500,1200 noenhanced font 'sans,11' background '#ffffff'
}
set output out

set style data histograms
set style histogram clustered gap 1
set style fill solid noborder
set offsets 0,0,graph 0.25,0
set yrange [0:*]
set grid ytics lc rgb '#e0e0e0'
set border 3 lc rgb '#888888'
set tics nomirror
set xtics font ',9' scale 0
set key left top horizontal samplen 1

grey = '#a9b4c0'
pale = '#cfd6dd'
blue = '#2b7bba'
sand = '#d9a441'
percent(v) = sprintf('%.0f', v)
less(v, bound) = sprintf('%+.0f', v - bound)

set multiplot layout 4,1 title note font ',12' margins 0.05,0.99,0.07,0.94 spacing 0.05,0.075

do for [i = 0:1] {
	set title 'Guest instructions a send, notifications after ' . (i == 0 ? 'every send' : 'every 32nd send') . ' (numbers: above the bound)'
	plot data index i using 2:xtic(1) title 'bound' lc rgb sand, '' index i using 3 title 'error queue, read until empty' lc rgb grey, \
	     '' index i using 4 title 'error queue, read once' lc rgb pale, '' index i using 5 title 'control message' lc rgb blue, \
	     '' index i using ($0 - 0.1):3:(less($3, $2)) with labels offset 0,0.5 font ',8' notitle, \
	     '' index i using ($0 + 0.1):4:(less($4, $2)) with labels offset 0,0.5 font ',8' notitle, \
	     '' index i using ($0 + 0.3):5:(less($5, $2)) with labels offset 0,0.5 font ',8' notitle
}

set title 'Distance from the error queue to the bound that is closed after every send, percent (bar: 85)'
plot data index 0 using 6:xtic(1) title 'from read until empty' lc rgb blue, '' index 0 using 7 title 'from read once' lc rgb pale, \
     '' index 0 using ($0 - 1./6):6:(percent($6)) with labels offset 0,0.5 font ',8' notitle, \
     '' index 0 using ($0 + 1./6):7:(percent($7)) with labels offset 0,0.5 font ',8' notitle, \
     85 with lines lc rgb sand lw 2 title 'bar'

set yrange [*:*]
set offsets 0,0,graph 0.2,graph 0.05
set xzeroaxis lc rgb '#888888'
set xtics rotate by 55 right font ',7'
set title 'A plain sendmsg() of one byte: patched against base kernel, percent (bar: 0.3; zc: SO_ZEROCOPY is set)'
plot data index 2 using 2:xtic(1) title 'change' lc rgb blue, 0.3 with lines lc rgb sand lw 2 title 'bar'
unset multiplot
