package rockbottest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/internal/process"
)

// ErrMissing is the error of Start where RabbitMQ is not installed.
var ErrMissing = errors.New("RabbitMQ is not installed here (Debian: apt-get install rabbitmq-server)")

// startTime is how long RabbitMQ may take to start.
const startTime = 3 * time.Minute

// Server is a RabbitMQ of one node, which keeps its files in one folder, and its port. It has the user guest with the password guest.
type Server struct {
	dir                    string
	port, tls, dist, names string // ports

	mu    sync.Mutex
	node  *exec.Cmd
	epmd  *exec.Cmd
	ended chan struct{}
}

// server returns the program that runs in the foreground, as whoever starts it: that in the path asks for another user.
func program() (string, error) {
	for _, pattern := range []string{"/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server", "/usr/lib/rabbitmq/bin/rabbitmq-server", "/opt/rabbitmq/sbin/rabbitmq-server"} {
		if all, _ := filepath.Glob(pattern); len(all) > 0 { // the pattern is valid
			return all[0], nil
		}
	}
	return "", ErrMissing
}

// Start starts a server with its files in dir, which exists. With certificates (ca.pem, cert.pem and key.pem in dir) it has TLS as well.
func Start(dir string) (*Server, error) {
	if _, err := program(); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("epmd"); err != nil {
		return nil, ErrMissing
	}
	s := &Server{dir: dir}
	for _, port := range []*string{&s.port, &s.tls, &s.dist, &s.names} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, *port, _ = net.SplitHostPort(l.Addr().String())
	}
	conf := fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%s\nlog.console = true\nvm_memory_high_watermark.absolute = 2GB\ndisk_free_limit.absolute = 1MB\n", s.port)
	if _, err := os.Stat(filepath.Join(dir, "cert.pem")); err == nil {
		conf += fmt.Sprintf("listeners.ssl.1 = 127.0.0.1:%s\nssl_options.verify = verify_none\n", s.tls)
		for name, file := range map[string]string{"cacertfile": "ca.pem", "certfile": "cert.pem", "keyfile": "key.pem"} {
			conf += fmt.Sprintf("ssl_options.%s = %s\n", name, filepath.Join(dir, file))
		}
	}
	for name, text := range map[string]string{"rabbitmq.conf": conf, "plugins": "[].\n", "env": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// URL returns the address of the server, with its user.
func (s *Server) URL() string { return "amqp://guest:guest@127.0.0.1:" + s.port + "/" }

// TLS returns the address with TLS.
func (s *Server) TLS() string { return "amqps://guest:guest@127.0.0.1:" + s.tls + "/" }

// Begin runs the server, again after Kill or Stop, and returns when it can be used.
func (s *Server) Begin() error {
	path, err := program()
	if err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(s.dir, name) }
	env := append(os.Environ(), "HOME="+s.dir, "ERL_EPMD_PORT="+s.names, "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_NODENAME=test"+s.port+"@localhost",
		"RABBITMQ_CONFIG_FILE="+at("rabbitmq"), "RABBITMQ_CONF_ENV_FILE="+at("env"), "RABBITMQ_MNESIA_BASE="+at("mnesia"), "RABBITMQ_LOG_BASE="+at("log"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+at("plugins"), "RABBITMQ_FEATURE_FLAGS_FILE="+at("flags"), "RABBITMQ_GENERATED_CONFIG_DIR="+at("generated"),
		"RABBITMQ_SCHEMA_DIR="+at("schema"), "RABBITMQ_PID_FILE="+at("pid"), "RABBITMQ_DIST_PORT="+s.dist, "RABBITMQ_LOGS=-", "RABBITMQ_ALLOW_INPUT=1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}")
	out, err := os.OpenFile(at("out"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // others write
	// RabbitMQ would start epmd as a daemon, which stays.
	epmd := exec.Command("epmd", "-port", s.names, "-address", "127.0.0.1")
	node := exec.Command(path)
	for _, c := range []*exec.Cmd{epmd, node} {
		c.Env, c.Stdout, c.Stderr = env, out, out
		process.Isolate(c)
		if err := c.Start(); err != nil {
			return err
		}
	}
	ended := make(chan struct{})
	s.mu.Lock()
	s.node, s.epmd, s.ended = node, epmd, ended
	s.mu.Unlock()
	go func() {
		_ = node.Wait()
		process.KillGroup(epmd.Process.Pid)
		_ = epmd.Wait()
		close(ended)
	}()
	for end := time.Now().Add(startTime); ; {
		conn, err := amqp.Dial(s.URL())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ended:
			return fmt.Errorf("RabbitMQ has ended:\n%s", s.Log())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(end) {
			s.Kill()
			return fmt.Errorf("RabbitMQ is not there (%w):\n%s", err, s.Log())
		}
	}
}

// Log returns the end of what the server has written.
func (s *Server) Log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "out")) // for people
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() {
	s.mu.Lock()
	node, ended := s.node, s.ended
	s.mu.Unlock()
	if node != nil {
		process.KillGroup(node.Process.Pid)
		<-ended
	}
}
