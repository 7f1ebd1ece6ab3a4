#!/bin/sh
# Fails unless the library exports exactly the functions that its header declares, and the one of EXTOLL
# that programs of 2013 call undeclared.
#   exported_names.sh LIBRARY HEADER
set -eu
exported=$(nm -D --defined-only "$1" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | sort)
declared=$({ grep -E '^[a-z].*\);$' "$2" | grep -oE 'ocm_[a-z_]+\(' | tr -d '('; echo ocm_extoll_disconnect; } | sort)
others=$(nm -D --defined-only "$1" | awk '$2 != "T" && $2 != "A"')
[ "$exported" = "$declared" ] && [ -z "$others" ] || {
  printf 'exported:\n%s\n%s\ndeclared:\n%s\n' "$exported" "$others" "$declared"
  exit 1
}
