#!/usr/bin/env perl
# A trading agent in another language: POST /trading_action/, answers by the day; odd days are answered badly, each in another way.
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP;

my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 16, ReuseAddr => 1) or die "no socket: $!";
$| = 1;
print $server->sockport, "\n";
my @faults = (
    sub { "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 5\r\n\r\noops!" },
    sub { answer('{"recommended_action": "SHORT IT", "reasoning": "x"}') },
    sub { answer('<html>busy</html>') },
    sub { answer('{"reasoning": "no action"}') },
    sub { '' },                                                             # it hangs up
    sub { "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"recommended" },  # it stops in the middle
    sub { sleep 600; answer('{"recommended_action": "BUY", "reasoning": "too late"}') },
);

sub answer {
    my ($body) = @_;
    return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
}

while (my $client = $server->accept) {
    next if fork;
    my ($length, $line) = (0);
    while (defined($line = <$client>) && $line !~ /^\r?\n$/) { $length = $1 if $line =~ /^content-length:\s*(\d+)/i }
    read($client, my $content, $length);
    my $asked = decode_json($content);
    my ($symbol) = @{ $asked->{symbol} };
    my ($day) = $asked->{date} =~ /(\d+)$/;
    my @path = @{ $asked->{history_price}{$symbol} || [] };
    my $rose = @path && $asked->{price}{$symbol} > $path[-1]{price};
    my $action = $rose ? 'buy' : 'SELL';
    my $good = answer(encode_json({ recommended_action => $action, reasoning => "$symbol closed " . ($rose ? 'up' : 'down') }));
    print $client $day % 2 ? $faults[($day >> 1) % @faults]->() : $good;
    close $client;
    exit;
}
