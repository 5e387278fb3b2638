trap 'exit 0' TERM INT
written=
while :; do
  if [ -s "$SUBNET_FILE" ]; then
    . "$SUBNET_FILE"
    # The address of the bridge, the first of the subnet; the subnet itself is the one before it.
    address=${FLANNEL_SUBNET%/*}
    subnet=${address%.*}.$((${address##*.} - 1))/${FLANNEL_SUBNET#*/}
    config='{
  "cniVersion": "1.0.0",
  "name": "cbr0",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "mtu": '${POD_MTU:-$FLANNEL_MTU}',
      "isDefaultGateway": true,
      "forceAddress": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "'$subnet'"}]],
        "routes": [{"dst": "'$FLANNEL_NETWORK'"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}'
    if [ "$config" != "$written" ] || [ ! -s "$NETWORK_FOLDER/10-flannel.conflist" ]; then
      # Under its name it is whole or not there: containerd watches the folder.
      printf '%s\n' "$config" > "$NETWORK_FOLDER/.10-flannel.partial" &&
        mv "$NETWORK_FOLDER/.10-flannel.partial" "$NETWORK_FOLDER/10-flannel.conflist" &&
        written=$config
    fi
  fi
  if [ -n "$written" ]; then pause=5; else pause=0.2; fi
  # Waiting in the background, so that the signal is heard at once.
  { sleep "$pause" || sleep 1; } 2>/dev/null &
  wait $!
done
