#!/usr/bin/env bash
# Checks the model and regenerates its traces: types, invariants, broken variants, witnesses, traces.
# Usage: spec/run.sh [check|traces|all]. Seeds are fixed, so a run can be repeated.
set -euo pipefail
cd "$(dirname "$0")"

traces=../tests/journals/model
laws=(S_1 S_2 S_3 S_4 S_5 S_6 S_7 SE_1 SE_2 SE_3 SE_4 SE_5 CF_1 CF_2 CF_3 CF_4
  JS_1 JS_2 JS_3 JS_4 JS_5 JS_6 JS_7 INV_4 INV_6)
safeguards=(oneHolder fencedChangesNothing staleIsFenced completedWasPerformed completedOnce recordsInOrder
  intentBeforeEffect completedStaysDone nothingLost)
reached=(aRunEnded aStepWasRepeated aChangeWasFenced aBatchWasMixed aLiveWorkerWasDeclaredDead)
timely=(startedOnce accountedFor movesOnce pausedStartsNothing notBeforeItsTime neverStuck noStartLost withinCaps inOrder)
seen=(aMoveWasRefused aTickWaited aTickWasMissed aTickWasFound aTickWasSkipped aStartWaitedForAPlace aPauseHeldATick
  aTickWasEarly)

quint() { ./node_modules/.bin/quint "$@"; }

simulate() { quint run --backend=typescript --verbosity=1 --seed=1 "$@"; }

# A simulation that must reach all of its witnesses: if one is never reached, the invariants were not tested in that case.
simulate_reaching() {
  local report
  report=$(simulate "$@") || { echo "$report"; return 1; }
  echo "$report"
  if grep -q "witnessed in 0 trace" <<<"$report"; then
    echo "error: a witness was never reached" >&2
    return 1
  fi
}

# A simulation that must find a violation: because a safeguard was removed, or to show that a rare case is possible.
simulate_breaking() {
  local report
  if report=$(simulate "$@" 2>&1); then
    echo "error: no violation found by: $*" >&2
    return 1
  fi
  if ! grep -q "Invariant violated" <<<"$report"; then
    echo "$report" >&2
    return 1
  fi
  echo "violated, as it must be: $*"
}

install() { [ -x node_modules/.bin/quint ] || npm ci --silent || npm install --silent; }

check() {
  for file in events laws journal engine schedules; do quint typecheck "$file.qnt"; done
  simulate_reaching journal.qnt --max-samples=40 --max-steps=45 --invariants "${laws[@]}" \
    --witnesses aJoinSetWasTaken aSignalWasReceivedWhileBlocked aRunWasCancelled anOpenWaitWasResumed
  local broken=()
  for law in "${laws[@]}"; do broken+=("not($law)"); done
  simulate_reaching journal.qnt --step=lawless --max-samples=60 --max-steps=30 --witnesses "${broken[@]}"
  simulate_reaching engine.qnt --main=sound --max-samples=500 --max-steps=60 --invariants "${safeguards[@]}" \
    --witnesses "${reached[@]}"
  simulate_breaking engine.qnt --main=sound --max-samples=5000 --max-steps=60 \
    --invariant="not(aStaleHolderRepeatedACompletedStep)"
  simulate_breaking engine.qnt --main=unfenced --max-samples=500 --max-steps=60 --invariant=completedOnce
  simulate_breaking engine.qnt --main=unfenced --max-samples=500 --max-steps=60 --invariant=staleIsFenced
  simulate_breaking engine.qnt --main=hasty --max-samples=500 --max-steps=60 --invariant=intentBeforeEffect
  simulate_reaching schedules.qnt --main=timely --max-samples=120 --max-steps=70 --invariants "${timely[@]}" \
    --witnesses "${seen[@]}"
  simulate_breaking schedules.qnt --main=unversioned --max-samples=100 --max-steps=60 --invariant=accountedFor
  simulate_breaking schedules.qnt --main=unversioned --max-samples=100 --max-steps=60 --invariant=pausedStartsNothing
  simulate_breaking schedules.qnt --main=unnamed --max-samples=100 --max-steps=60 --invariant=startedOnce
  simulate_breaking schedules.qnt --main=handmade --max-samples=100 --max-steps=60 --invariant=startedOnce
  simulate_breaking schedules.qnt --main=overbooked --max-samples=100 --max-steps=60 --invariant=withinCaps
}

# The first trace on which a witness holds, found as a violation of its negation.
find_trace() {
  simulate_breaking journal.qnt --max-samples=500 --max-steps=34 --invariant="not($2 and clock > 24)" \
    --out-itf="$traces/$1.itf.json"
}

regenerate() {
  mkdir -p "$traces"
  rm -f "$traces"/lawful-*.itf.json "$traces"/lawless-*.itf.json
  simulate journal.qnt --max-samples=4 --n-traces=4 --max-steps=32 --out-itf="$traces/lawful-{seq}.itf.json"
  find_trace lawful-join-set aJoinSetWasTaken
  find_trace lawful-signal aSignalWasReceivedWhileBlocked
  find_trace lawful-cancelled aRunWasCancelled
  find_trace lawful-open-wait anOpenWaitWasResumed
  simulate journal.qnt --step=lawless --max-samples=20 --n-traces=20 --max-steps=14 \
    --out-itf="$traces/lawless-{seq}.itf.json"
  node tidy.mjs "$traces"/lawful-*.itf.json "$traces"/lawless-*.itf.json
}

install
case "${1:-all}" in
  check) check ;;
  traces) regenerate ;;
  all) check && regenerate ;;
  *) echo "usage: spec/run.sh [check|traces|all]" >&2; exit 2 ;;
esac
