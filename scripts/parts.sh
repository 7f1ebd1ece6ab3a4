# Sourced by the scripts that run tests: how long each part took, printed at the end beside the budget of
# tests/budget.txt. The budget is for two cores and an empty compiler cache; it is printed, not enforced, for the
# machine may be busy. Where OCM_FAILED names a file, the end of what each failing suite printed is appended to it.
declare -a part_names=() part_seconds=() part_results=()

part() {  # NAME COMMAND...: what the parts after it need; its failure ends the run
  local start=$SECONDS
  begin_part "$1"
  local result=0
  printed "$@" || result=$?
  end_part "$start" "$result"
  return "$result"
}

suite() {  # NAME COMMAND...: one run tells of every suite that fails; all_passed afterwards
  local start=$SECONDS
  begin_part "$1"
  local result=0
  printed "$@" || result=$?
  end_part "$start" "$result"
}

begin_part() {  # NAME
  echo "== $1"
  part_names+=("$1")
  part_seconds+=(0)
  part_results+=(failed)  # until its end: what ends the script meanwhile
}

end_part() {  # START RESULT
  part_seconds[-1]=$((SECONDS - $1))
  if [ "$2" -eq 0 ]; then part_results[-1]=passed; fi
}

printed() {  # NAME COMMAND...
  local name=$1 kept failed=0
  shift
  if [ -z "${OCM_FAILED:-}" ]; then "$@"; return; fi
  kept=$(mktemp)
  "$@" 2>&1 | tee "$kept" || failed=1
  if [ "$failed" -ne 0 ]; then { echo "== failed: $name"; grep -v '(Skipped)$' "$kept" | tail -n 60; } >> "$OCM_FAILED"; fi
  rm -f "$kept"
  return "$failed"
}

all_passed() { [[ ! " ${part_results[*]} " == *" failed "* ]]; }

print_parts() {  # what was run
  local i total=0
  if [ "${#part_names[@]}" -eq 0 ]; then return; fi
  printf '\n%-32s %8s %8s\n' part seconds budget
  for i in "${!part_names[@]}"; do
    print_part "${part_names[i]}" "${part_seconds[i]}" "${part_results[i]}"
    total=$((total + part_seconds[i]))
  done
  print_part "$1" "$total" passed
}

print_part() {  # NAME SECONDS RESULT
  local budget mark=""
  budget=$(budget_of "$1")
  if [ "$2" -gt "${budget:-$2}" ]; then mark="  over budget"; fi
  if [ "$3" = failed ]; then mark+="  failed"; fi
  printf '%-32s %8s %8s%s\n' "$1" "$2" "${budget:--}" "$mark"
}

budget_of() {  # NAME
  awk -F '\t' -v name="$1" '$1 == name { print $2 }' tests/budget.txt
}
