import { within } from "./bounds.js";
import { problemIn, type Problem, type Task, type UnknownReason } from "./result.js";
import { retryAfterMs, type Network } from "./send.js";

export interface WaitOptions {
  signal?: AbortSignal;
  /** Default: 10 minutes. The task goes on without us. */
  deadlineMs?: number;
  /** Called with each state that was read. */
  onProgress?: (task: Task) => void;
}

/**
 * `outcome_unknown` is the task's own: some of it waits for something outside, and resolves by itself; wait again
 * later. `unknown` is ours: the task goes on, or it could not be read. `rejected`: it may not be read, or is not there.
 */
export type TaskResult =
  | { kind: Exclude<Task["state"], "processing">; task: Task }
  | { kind: "rejected"; problem: Problem }
  | { kind: "unknown"; reason: UnknownReason; task?: Task | undefined; problem?: Problem | undefined; cause?: unknown };

type ReadTask = (signal: AbortSignal) => Promise<{ data?: Task; error?: unknown; response: Response }>;

const pollMs = 2_000; // where the answer has no Retry-After, or 0

export async function waitForTask(read: ReadTask, { pause }: Network, o: WaitOptions = {}): Promise<TaskResult> {
  let task: Task | undefined;
  try {
    return await within(o.deadlineMs ?? 600_000, o.signal, async (signal) => {
      for (;;) {
        const { data, error, response } = await read(signal);
        if (!response.ok) {
          const problem = problemIn(error);
          if (problem?.retryable === false) return { kind: "rejected", problem };
          return { kind: "unknown", reason: problem ? "gave_up" : "unreadable", task, problem };
        }
        task = data!;
        o.onProgress?.(task);
        if (task.state !== "processing") return { kind: task.state, task };
        await pause(retryAfterMs(response) || pollMs, signal);
      }
    });
  } catch (cause) {
    return { kind: "unknown", reason: o.signal?.aborted ? "aborted" : "gave_up", task, cause };
  }
}
