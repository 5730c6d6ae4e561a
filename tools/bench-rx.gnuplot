# SPDX-License-Identifier: GPL-2.0-only
#
# Receive by copying and by mapping side by side, from bench-rx.dat of tools/bench-rx-report:
#   gnuplot -e "data='bench-rx.dat'; out='bench-rx.png'; kind='png'; note='...'" bench-rx.gnuplot
# kind is png or svg.

if (kind eq 'png') {
	set terminal pngcairo size 1500,900 noenhanced font 'sans,11'
} else {
	set terminal svg size 1500,900 noenhanced font 'sans,11' background '#ffffff'
}
set output out

set style data histograms
set style histogram clustered gap 1
set style fill solid noborder
set offsets 0,0,graph 0.16,0
set yrange [0:*]
set grid ytics lc rgb '#e0e0e0'
set border 3 lc rgb '#888888'
set tics nomirror
set ytics format '%.0s%c'
set xtics font ',9' scale 0
set key right top horizontal samplen 1

thousand(v) = sprintf('%.0fk', v / 1000)
ratio(v) = sprintf('%.2f', v)
grey = '#a9b4c0'
blue = '#2b7bba'
sand = '#d9a441'

set multiplot layout 2,2 title note font ',12' margins 0.05,0.99,0.05,0.92 spacing 0.05,0.11

set title 'Receiving thread: guest instructions a MiB'
plot data using 2:xtic(1) title 'copy' lc rgb grey, '' using 3 title 'zero-copy' lc rgb blue, \
     '' using ($0 - 1./6):2:(thousand($2)) with labels offset 0,0.5 font ',8' notitle, \
     '' using ($0 + 1./6):3:(thousand($3)) with labels offset 0,0.5 font ',8' notitle

set title 'Whole transfer: guest instructions a MiB'
plot data using 6:xtic(1) title 'copy' lc rgb grey, '' using 7 title 'zero-copy' lc rgb blue, \
     '' using ($0 - 1./6):6:(thousand($6)) with labels offset 0,0.5 font ',8' notitle, \
     '' using ($0 + 1./6):7:(thousand($7)) with labels offset 0,0.5 font ',8' notitle

set ytics format '%g'
set key left top horizontal samplen 1
set title 'Receiving thread: copy / zero-copy, and the bar'
plot data using 4:xtic(1) title 'measured' lc rgb blue, '' using 5 title 'bar' lc rgb sand, \
     '' using ($0 - 1./6):4:(ratio($4)) with labels offset 0,0.5 font ',8' notitle, \
     '' using ($0 + 1./6):5:(ratio($5)) with labels offset 0,0.5 font ',8' notitle

set title 'Whole transfer: copy / zero-copy, and what the old proposal stated (a real machine, time)'
plot data using 8:xtic(1) title 'measured' lc rgb blue, '' using 9 title 'old proposal' lc rgb grey, \
     '' using ($0 - 1./6):8:(ratio($8)) with labels offset 0,0.5 font ',8' notitle, \
     '' using ($0 + 1./6):9:(ratio($9)) with labels offset 0,0.5 font ',8' notitle
unset multiplot
