package orderonce

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"orderonce/clients/go/api"
)

// pollPause is the time between two looks at a task where the service names none.
const pollPause = 2 * time.Second

// WaitForTask looks at a task until it is no longer processing, as often as the service asks. When ctx ends first, the
// error says so and the task is what was seen last: it goes on, and can be waited for again.
func (c *Client) WaitForTask(ctx context.Context, id uuid.UUID) (Task, error) {
	policy := c.transport.Policy.withDefaults()
	var seen Task
	for {
		task, after, err := c.task(ctx, id)
		if err != nil {
			return seen, fmt.Errorf("look at task %s, which may go on: %w", id, err)
		}
		if seen = task; task.State != api.TaskStateProcessing {
			return task, nil
		}
		if after == 0 {
			after = pollPause
		}
		if err := policy.Pause(ctx, policy.between(1, after)); err != nil {
			return seen, fmt.Errorf("wait for task %s, which goes on: %w", id, err)
		}
	}
}

func (c *Client) task(ctx context.Context, id uuid.UUID) (task Task, after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/tasks/"+id.String(), nil)
	if err != nil {
		return task, 0, err
	}
	e, err := c.transport.exchange(r)
	switch {
	case err != nil:
		return task, 0, err
	case e.answer == nil:
		return task, 0, &NoAnswerError{e.sends, e.err}
	case e.answer.problem != nil:
		return task, 0, fmt.Errorf("%s: %s", e.answer.problem.Code, e.answer.problem.Title)
	}
	if err := json.Unmarshal(e.answer.body, &task); err != nil || task.State == "" {
		return task, 0, fmt.Errorf("an answer of status %d is no task", e.answer.raw.StatusCode)
	}
	return task, e.answer.retryAfter(time.Now()), nil
}
