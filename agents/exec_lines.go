package agents

import (
	"context"
	"errors"
)

// ExecLines returns a handler that runs a program for each task, and speaks with it in lines of JSON, as package jsonl says. So a program can
// show text and outputs as it makes them, ask the user and others, refuse, and end a canceled task by itself. Its environment is that of [Exec], with
// CORTEX_PROTOCOL and without CORTEX_FILES and CORTEX_OUT: paths are in the task. Processes are ended as with Exec.
//
// [Keep] is for a program that stays.
func ExecLines(o ExecOptions) (Handler, error) {
	p, err := newProgram(o)
	if err != nil {
		return nil, err
	}
	notes := openQuestions(o.Questions, p.log)
	return func(ctx context.Context, t *Task) (*Result, error) {
		if err := p.begun(t); err != nil {
			return nil, err
		}
		ctx, cancel := p.timed(ctx)
		defer cancel()
		files, given, err := begin(ctx, t, notes)
		if err != nil {
			return nil, err
		}
		defer files.remove()
		k, err := p.start(p.env(t), true)
		if err != nil {
			return nil, err
		}
		r, err := (&dialog{k: k, t: t, id: given.ID, files: files, notes: notes, given: given}).run(ctx)
		k.end(ctx.Err() != nil || err != nil && !errors.As(err, new(*rejectedError)))
		if errors.Is(err, errLost) {
			return nil, errors.New(p.name + " ended without a result: " + k.why().Error())
		}
		return r, err
	}, nil
}
