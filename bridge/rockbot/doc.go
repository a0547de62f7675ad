// Package rockbot has RockBot (github.com/MarimerLLC/rockbot) and Cortex give each other work, by way of the RabbitMQ where RockBot is. [Role] is the
// role of `cortex serve` for that; a program of one's own adds it to app.Options.Roles.
package rockbot
