# The lines of bootstrap.sh as literals of C, without comments and empty lines.
/^ *#/d
/^$/d
s/[\\"]/\\&/g
s/.*/"&\\n"/
