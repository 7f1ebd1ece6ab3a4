# Sourced by test.sh: what takes hours.
cat <<TEXT
make test-long covers, beyond make test:
  simulation   whole daemons on virtual time by seed: programs' lives for 10^6 seconds, and the client's own code over the
               fake network for 300 hours
  models       the exhaustive checkers with their deep worlds, where tests/model has them
  wheel        compiled whole by pip, instead of with the libraries that make test has compiled
  soak         100,000 random operations over three real nodes, every byte compared
  fuzzers      each decoder of bytes from outside, and whole messages of hostile programs and nodes, for 60 seconds
               each, from tests/fuzz/corpus; what they find stays in .cache/fuzz (scripts/fuzz.sh merge: into the former)
It does not cover: clusters of several machines, InfiniBand, and the suites of make test and make test-sanitizers.
TEXT
export OCM_SIM_SECONDS=${OCM_SIM_SECONDS:-1000000}
for program in build/release/tests/simulation/*_test; do
  suite "simulation: $(basename "$program")" env OCM_SIM_SEEDS="${OCM_SIM_SEEDS:-300}" "$program"
done
for program in build/release/tests/model/*_model; do
  if [ -x "$program" ]; then suite "model: $(basename "$program")" "$program" --deep; fi
done
OCM_WHEEL_WHOLE=1 suite "wheel" run_python python/test_install.py
export OCM_SOAK_OPS=${OCM_SOAK_OPS:-100000}
suite "soak" run_cluster --timeout 7200 tests/cluster/test_soak.py
suite "fuzzers" scripts/fuzz.sh 60
