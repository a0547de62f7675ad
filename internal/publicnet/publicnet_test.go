package publicnet_test

import (
	"net/netip"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700:4700::1111": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true, "223.255.255.254": true,
		"127.0.0.1": false, "127.8.9.10": false, "::1": false, "::ffff:127.0.0.1": false, "::127.0.0.1": false, "64:ff9b::7f00:1": false,
		"10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false, "172.32.0.1": true, "192.168.1.1": false, "::ffff:10.0.0.1": false,
		"64:ff9b::a00:1": false, "64:ff9b:1::a00:1": false, "fc00::1": false, "fd12:3456::1": false, "fec0::1": false,
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "fe80::1": false, "2606:4700::1%eth0": false, "fd00:ec2::254": false,
		"0.0.0.0": false, "0.1.2.3": false, "::": false, "255.255.255.255": false, "240.0.0.1": false, "224.0.0.1": false, "ff02::1": false,
		"100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false, "192.0.2.1": false, "198.18.0.1": false, "198.51.100.1": false, "203.0.113.1": false,
		"2002:7f00:1::": false, "2001:0:7f00:1::": false, "2001:db8::1": false, "3fff::1": false, "4000::1": false,
	} {
		if got := publicnet.Is(netip.MustParseAddr(text)); got != want {
			t.Errorf("Is(%s) = %t, want %t", text, got, want)
		}
	}
	if publicnet.Is(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.10": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "10.0.0.1": false, "localhost.example": false, "[::1]": false,
	} {
		if got := publicnet.IsLoopback(host); got != want {
			t.Errorf("IsLoopback(%q) = %t, want %t", host, got, want)
		}
	}
}
