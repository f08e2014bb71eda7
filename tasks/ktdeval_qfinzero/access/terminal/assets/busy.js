// How much the page waits for: calls without an answer, and a preview that typing holds up. The
// style shows it by the pointer; `data-pending` of the body is absent when everything has come.

let pending = 0;

function show() {
  if (pending) document.body.dataset.pending = String(pending);
  else delete document.body.dataset.pending;
}

/** Counts a wait; gives what ends it, once. */
export function begin() {
  let isOver = false;
  pending += 1;
  show();
  return () => {
    if (isOver) return;
    isOver = true;
    pending -= 1;
    show();
  };
}

/** A function that does work once for all calls of a turn: one change may tell several topics. */
export function oncePerTurn(act) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    during(
      Promise.resolve().then(() => {
        isDue = false;
        return act();
      }),
    );
  };
}

/** Counts a wait until a promise is settled. */
export async function during(promise) {
  const end = begin();
  try {
    return await promise;
  } finally {
    end();
  }
}
