# Sourced by test.sh: what takes hours.
cat <<TEXT
make test-long covers, beyond make test:
  simulation   whole daemons on virtual time by seed: programs' lives for 10^6 seconds, and the client's own code over the
               fake network for 300 hours
  models       the exhaustive checkers with their deep worlds, where tests/model has them
  wheel        compiled whole by pip, instead of with the libraries that make test has compiled
  soak         100,000 random operations over three real nodes, every byte compared
  cached       what programs do, with all of their memory coherent, and with caches of 4 and of 16 pages
  computing    programs that compute for 45 seconds in the middle of a get or a put
  fuzzers      each decoder of bytes from outside, and whole messages of hostile programs and nodes, for 60 seconds
               each, from tests/fuzz/corpus; what they find stays in .cache/fuzz (scripts/fuzz.sh merge: into the former)
  sanitizers   what make test-sanitizers runs in short: 300 lives and 10 whole hours of the simulation under the address
               and undefined sanitizers, and the council's 500 seeds under them and under the thread sanitizer
It does not cover: clusters of several machines, InfiniBand, the simulation under the thread sanitizer (it has one
thread), and the other suites of make test and make test-sanitizers.
TEXT
for program in build/release/tests/simulation/*_test; do
  suite "simulation: $(basename "$program")" env OCM_SIM_SECONDS="${OCM_SIM_SECONDS:-1000000}" \
    OCM_SIM_SEEDS="${OCM_SIM_SEEDS:-300}" "$program"
done
for program in build/release/tests/model/*_model; do
  if [ -x "$program" ]; then suite "model: $(basename "$program")" "$program" --deep; fi
done
OCM_WHEEL_WHOLE=1 suite "wheel" run_python python/test_install.py
export OCM_SOAK_OPS=${OCM_SOAK_OPS:-100000}
suite "soak" run_cluster --timeout 7200 tests/cluster/test_soak.py
for pages in 4 16; do
  suite "cached: $pages pages" run_cached "$pages" "${together[@]}" --timeout 300 tests/cluster/test_{async,copies,events}.py \
    tests/cluster/test_{failures,holds,hostile,links,loss,memory,moved,names,programs,publish,restart,sequence,soak}.py \
    tests/cluster/test_{stop,succession,told,users,waiting}.py
done
suite "computing" env OCM_COMPUTES_S=45 run_cluster --timeout 300 tests/cluster/test_async.py -k computes
suite "fuzzers" scripts/fuzz.sh 60

run_lives() {  # PROGRAM COUNT: one after the other; of one that fails, its end
  local seed
  for seed in $(seq "$2"); do
    if OCM_SIM_SEED=$seed "$1" --gtest_filter='Simulation.Lives*' >"$scratch/life" 2>&1; then continue; fi
    echo "OCM_SIM_SEED=$seed"
    tail -n 60 "$scratch/life"
    return 1
  done
}

part "build: asan-ubsan" scripts/build.sh asan-ubsan world_test hour_test unit_control
suite "simulation: world, asan-ubsan" run_lives build/asan-ubsan/tests/simulation/world_test "${OCM_SIM_SEEDS:-300}"
suite "simulation: hour, asan-ubsan" env OCM_SIM_SEEDS="${OCM_SIM_SEEDS:-10}" build/asan-ubsan/tests/simulation/hour_test
suite "council: asan-ubsan" env OCM_QUORUM_SEEDS=500 build/asan-ubsan/tests/unit/unit_control
part "build: tsan" scripts/build.sh tsan unit_control
suite "council: tsan" env OCM_QUORUM_SEEDS=500 build/tsan/tests/unit/unit_control
