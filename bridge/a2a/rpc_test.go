package a2a_test

import (
	"context"
	"errors"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestRPCErrors compares what gRPC answers to wrong calls with the protocol's table.
func TestRPCErrors(t *testing.T) {
	w := newWorld(t, false)
	open := w.serve(w.server(), nil)
	locked := w.serve(w.server(), func(token string) (string, error) {
		if token == "good" {
			return "user:ada", nil
		}
		return "", errors.New("that is no token")
	})
	message := func(m *a2apb.Message) *a2apb.SendMessageRequest { return &a2apb.SendMessageRequest{Message: m} }
	for name, test := range map[string]struct {
		url    string
		header []string
		call   func(ctx context.Context, c a2apb.A2AServiceClient) error
		code   codes.Code
		reason string
	}{
		"GRPC-ERR-002 no version":      {open, nil, get("x"), codes.FailedPrecondition, "VERSION_NOT_SUPPORTED"},
		"GRPC-ERR-002 another version": {open, []string{"a2a-version", "99.0"}, get("x"), codes.FailedPrecondition, "VERSION_NOT_SUPPORTED"},
		"GRPC-ERR-001":                 {open, []string{"a2a-version", "1.0"}, get("x"), codes.NotFound, "TASK_NOT_FOUND"},
		"GRPC-ERR-001 subscribe":       {open, []string{"a2a-version", "1.0"}, subscribe("x", ""), codes.NotFound, "TASK_NOT_FOUND"},
		"an agent that cannot be":      {open, []string{"a2a-version", "1.0"}, subscribe("x", "a b"), codes.InvalidArgument, "INVALID_PARAMS"},
		"no parts": {open, []string{"a2a-version", "1.0"}, func(ctx context.Context, c a2apb.A2AServiceClient) error {
			_, err := c.SendMessage(ctx, message(&a2apb.Message{MessageId: "1", Role: a2apb.Role_ROLE_USER}))
			return err
		}, codes.InvalidArgument, "INVALID_PARAMS"},
		"push": {open, []string{"a2a-version", "1.0"}, func(ctx context.Context, c a2apb.A2AServiceClient) error {
			_, err := c.CreateTaskPushNotificationConfig(ctx, &a2apb.TaskPushNotificationConfig{TaskId: "x", Url: "http://localhost"})
			return err
		}, codes.FailedPrecondition, "PUSH_NOTIFICATION_NOT_SUPPORTED"},
		"by way of a proxy":   {open, []string{"a2a-version", "1.0", "x-forwarded-for", "10.0.0.1"}, get("x"), codes.PermissionDenied, ""},
		"no token":            {locked, []string{"a2a-version", "1.0"}, get("x"), codes.Unauthenticated, ""},
		"no token, a stream":  {locked, []string{"a2a-version", "1.0"}, subscribe("x", ""), codes.Unauthenticated, ""},
		"a wrong token":       {locked, []string{"a2a-version", "1.0", "authorization", "Bearer bad"}, get("x"), codes.Unauthenticated, ""},
		"a token":             {locked, []string{"a2a-version", "1.0", "authorization", "Bearer good"}, get("x"), codes.NotFound, "TASK_NOT_FOUND"},
		"a token, for stream": {locked, []string{"a2a-version", "1.0", "authorization", "Bearer good"}, subscribe("x", ""), codes.NotFound, "TASK_NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			cc, err := grpc.NewClient(w.rpc[test.url], grpc.WithTransportCredentials(insecure.NewCredentials()))
			must(t, err)
			defer cc.Close()
			s := status.Convert(test.call(metadata.AppendToOutgoingContext(t.Context(), test.header...), a2apb.NewA2AServiceClient(cc)))
			reason := ""
			for _, d := range s.Details() {
				if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == "a2a-protocol.org" {
					reason = info.GetReason()
				}
			}
			if s.Code() != test.code || reason != test.reason {
				t.Errorf("%v %s %q, want %v %s", s.Code(), reason, s.Message(), test.code, test.reason)
			}
		})
	}
}

func get(id string) func(context.Context, a2apb.A2AServiceClient) error {
	return func(ctx context.Context, c a2apb.A2AServiceClient) error {
		_, err := c.GetTask(ctx, &a2apb.GetTaskRequest{Id: id})
		return err
	}
}

func subscribe(id, tenant string) func(context.Context, a2apb.A2AServiceClient) error {
	return func(ctx context.Context, c a2apb.A2AServiceClient) error {
		s, err := c.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: id, Tenant: tenant})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
}
